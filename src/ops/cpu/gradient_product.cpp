// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): blocks of both matrices are copied to where
// their elements lie in the order of use, so that they stay in the second-level cache and cross few pages; of A a tile's part
// stays in the first-level cache, while that of B is read from the second.
#include "ops/cpu/gradient_product.hpp"

#include <algorithm>

#include "ops/cpu/panels.hpp"
#include "ops/host_loop.hpp"

namespace cohort::ops::cpu {
namespace {

constexpr Count kBlockRows = 48 * kTileRows;
constexpr Count kLeastTiles = 4;  // of a thread

void add_product_of_blocks(TileKernel kernel, const MatrixView& c, const float* a, const float* b, Count terms) {
  for (Count i = 0; i < c.rows; i += kTileRows) {
    for (Count j = 0; j < c.columns; j += kTileColumns) {
      const MatrixView tile = block_of(c, i, j, kTileRows, kTileColumns);
      kernel({.rows = tile.rows,
              .columns = tile.columns,
              .terms = terms,
              .a = a + i * terms,
              .a_row = 1,
              .a_term = kTileRows,
              .b = b + j * terms,
              .b_row = kTileColumns,
              .c = tile.data,
              .c_row = tile.stride,
              .addend = tile.data,
              .addend_row = tile.stride});
    }
  }
}

void add_product_by_one_thread(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b) {
  float* const panels_b = panels_of_block();
  thread_local const PanelMemory memory_of_a(kBlockTerms * kBlockRows);
  float* const panels_a = memory_of_a.data();
  const Count columns = block_columns();
  for (Count term = 0; term < a.rows; term += kBlockTerms) {
    const Count terms = std::min(kBlockTerms, a.rows - term);
    for (Count column = 0; column < c.columns; column += columns) {
      pack_columns(panels_b, block_of(b, term, column, terms, columns));
      for (Count row = 0; row < c.rows; row += kBlockRows) {
        if (column == 0 || c.rows > kBlockRows) pack_narrow_columns(panels_a, block_of(a, term, row, terms, kBlockRows));
        add_product_of_blocks(kernel, block_of(c, row, column, kBlockRows, columns), panels_a, panels_b, terms);
      }
    }
  }
}

// Of the time that the threads have, what they work: all wait for the one with the most tiles.
double balance(Count tiles, Count threads) {
  return static_cast<double>(tiles) / static_cast<double>(pieces(tiles, threads) * threads);
}

// Whether threads share out the rows of C, or its columns. Each copies all of the matrix of the other side, so its own should be
// several tiles; then those are best that leave the threads least to wait, then the longer side.
bool by_rows(const MatrixView& c, Count threads) {
  const Count rows = pieces(c.rows, kTileRows), columns = pieces(c.columns, kTileColumns), enough = kLeastTiles * threads;
  if ((rows >= enough) != (columns >= enough)) return rows >= enough;
  const double of_rows = balance(rows, threads), of_columns = balance(columns, threads);
  return of_rows != of_columns ? of_rows > of_columns : c.rows >= c.columns;
}

}  // namespace

bool enough_tiles(const MatrixView& c, int threads) {
  return std::max(pieces(c.rows, kTileRows), pieces(c.columns, kTileColumns)) >= kLeastTiles * threads;
}

void add_gradient_product(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b) {
  const bool rows = by_rows(c, host_threads());
  const Count size = rows ? c.rows : c.columns, tile = rows ? kTileRows : kTileColumns;
  for_runs(pieces(size, tile), [&](Count first, Count last, int) {
    const Count begin = first * tile, end = std::min(last * tile, size);
    if (begin >= end) return;
    if (rows) return add_product_by_one_thread(kernel, rows_between(c, begin, end), columns_between(a, begin, end), b);
    add_product_by_one_thread(kernel, columns_between(c, begin, end), a, columns_between(b, begin, end));
  });
}

}  // namespace cohort::ops::cpu
