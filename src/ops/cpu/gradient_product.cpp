// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): blocks of both matrices are copied to where
// their elements lie in the order of use, so that they stay in the second-level cache and cross few pages; of A a tile's part
// stays in the first-level cache, while that of B is read from the second.
#include "ops/cpu/gradient_product.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/tile_kernel.hpp"
#include "ops/host_loop.hpp"

namespace cohort::ops::cpu {
namespace {

constexpr Count kTerms = 384;  // of a block; 256 and 512 were slower
constexpr Count kRows = 32 * kTileRows, kColumns = 24 * kTileColumns;

// The block's columns in panels of kWidth: panel p is [rows, kWidth] at p * rows * kWidth. The last one is filled up with zeros.
template <Count kWidth>
void pack(float* panels, const MatrixView& block) {
  // Few rows at a time: panels begin at distances that are alike to a cache, which could not hold one line of each.
  constexpr Count kRowsAtOnce = 8;
  for (Count begin = 0; begin < block.rows; begin += kRowsAtOnce) {
    const Count end = std::min(begin + kRowsAtOnce, block.rows);
    for (Count column = 0; column < block.columns; column += kWidth) {
      float* const panel = panels + column * block.rows;
      const Count width = std::min(kWidth, block.columns - column);
      for (Count r = begin; r < end; ++r) {
        const float* const from = block.data + r * block.stride + column;
        float* const to = panel + r * kWidth;
        __builtin_prefetch(from + kRowsAtOnce * block.stride);
        if (width == kWidth) {
          std::memcpy(to, from, kWidth * sizeof(float));
        } else {
          std::fill(std::copy_n(from, width, to), to + kWidth, 0.0f);
        }
      }
    }
  }
}

MatrixView block_of(const MatrixView& m, Count row, Count column, Count most_rows, Count most_columns) {
  return {m.data + row * m.stride + column, std::min(most_rows, m.rows - row), std::min(most_columns, m.columns - column),
          m.stride};
}

struct Panels {
  std::vector<float> a = std::vector<float>(kTerms * kRows), b = std::vector<float>(kTerms * kColumns);
};

// The product by one thread.
void add_product(void (*kernel)(const Tile&), const MatrixView& c, const MatrixView& a, const MatrixView& b) {
  thread_local Panels panels;
  for (Count term = 0; term < a.rows; term += kTerms) {
    const Count terms = std::min(kTerms, a.rows - term);
    for (Count column = 0; column < c.columns; column += kColumns) {
      pack<kTileColumns>(panels.b.data(), block_of(b, term, column, terms, kColumns));
      for (Count row = 0; row < c.rows; row += kRows) {
        if (column == 0 || c.rows > kRows) pack<kTileRows>(panels.a.data(), block_of(a, term, row, terms, kRows));
        const MatrixView part = block_of(c, row, column, kRows, kColumns);
        for (Count i = 0; i < part.rows; i += kTileRows) {
          for (Count j = 0; j < part.columns; j += kTileColumns) {
            const MatrixView tile = block_of(part, i, j, kTileRows, kTileColumns);
            kernel({tile.rows, tile.columns, terms, panels.a.data() + i * terms, panels.b.data() + j * terms, tile.data,
                    tile.stride});
          }
        }
      }
    }
  }
}

MatrixView columns_of(const MatrixView& m, Count begin, Count end) { return {m.data + begin, m.rows, end - begin, m.stride}; }

MatrixView rows_of(const MatrixView& m, Count begin, Count end) {
  return {m.data + begin * m.stride, end - begin, m.columns, m.stride};
}

}  // namespace

bool add_gradient_product(const MatrixView& c, const MatrixView& a, const MatrixView& b) {
  const auto kernel = tile_kernel();
  if (kernel == nullptr) return false;
  // Threads share out the longer side of C, in whole tiles.
  const bool by_rows = c.rows >= c.columns;
  const Count size = by_rows ? c.rows : c.columns, tile = by_rows ? kTileRows : kTileColumns;
  for_runs((size + tile - 1) / tile, [&](Count first, Count last, int) {
    const Count begin = first * tile, end = std::min(last * tile, size);
    if (begin >= end) return;
    if (by_rows) return add_product(kernel, rows_of(c, begin, end), columns_of(a, begin, end), b);
    add_product(kernel, columns_of(c, begin, end), a, columns_of(b, begin, end));
  });
  return true;
}

}  // namespace cohort::ops::cpu
