// Goto and van de Geijn 2008 as in gradient_product.cpp, but for A: a tile's rows, which are read along the terms, lie in few
// lines of the first-level cache as they are.
#include "ops/cpu/linear_product.hpp"

#include "ops/cpu/panels.hpp"
#include "ops/host_loop.hpp"

namespace cohort::ops::cpu {
namespace {

constexpr Count kLeastPanels = 4;  // of a thread
constexpr Count kLeastRows = 256;  // of a thread, where each copies all of B: the copies then take a twentieth of the time
constexpr Count kLeastTerms = 32;  // of which a sum is worth the loads and stores around it
constexpr Count kMostBeyond = 16;  // of the columns at most one in so many may be computed for nothing, beside C
constexpr Count kLeastMultiplications = Count{1} << 24;  // smaller products were not measured

// C, what is added to it, and A: what is shared out among threads.
struct Product {
  MatrixView c, residual, a, b;
  Transpose transpose_b;
  const float* bias;

  Product rows(Count begin, Count end) const {
    Product part = *this;
    part.c = rows_between(c, begin, end);
    if (residual.data != nullptr) part.residual = rows_between(residual, begin, end);
    part.a = rows_between(a, begin, end);
    return part;
  }
  Product columns(Count begin, Count end) const {
    Product part = *this;
    part.c = columns_between(c, begin, end);
    if (residual.data != nullptr) part.residual = columns_between(residual, begin, end);
    part.b = transpose_b == Transpose::yes ? rows_between(b, begin, end) : columns_between(b, begin, end);
    if (bias != nullptr) part.bias += begin;
    return part;
  }
  void pack(float* panels, Count term, Count column, Count terms, Count columns) const {
    if (transpose_b == Transpose::yes) return pack_rows(panels, block_of(b, column, term, columns, terms));
    pack_columns(panels, block_of(b, term, column, terms, columns));
  }
};

void multiply_block(TileKernel kernel, const Product& p, const float* panels, Count term, Count terms) {
  const bool first = term == 0, last = term + terms == p.a.columns;
  const MatrixView& addend = first ? p.residual : p.c;
  for (Count i = 0; i < p.c.rows; i += kTileRows) {
    for (Count j = 0; j < p.c.columns; j += kTileColumns) {
      const MatrixView tile = block_of(p.c, i, j, kTileRows, kTileColumns);
      kernel({.rows = tile.rows,
              .columns = tile.columns,
              .terms = terms,
              .a = p.a.data + i * p.a.stride + term,
              .a_row = p.a.stride,
              .a_term = 1,
              .b = panels + j * terms,
              .b_row = kTileColumns,
              .c = tile.data,
              .c_row = tile.stride,
              .addend = addend.data != nullptr ? addend.data + i * addend.stride + j : nullptr,
              .addend_row = addend.stride,
              .bias = last && p.bias != nullptr ? p.bias + j : nullptr});
    }
  }
}

void multiply_by_one_thread(TileKernel kernel, const Product& p) {
  float* const panels = panels_of_block();
  for (Count term = 0; term < p.a.columns; term += kBlockTerms) {
    const Count terms = std::min(kBlockTerms, p.a.columns - term);
    for (Count column = 0; column < p.c.columns; column += block_columns()) {
      const Count end = std::min(column + block_columns(), p.c.columns);
      p.pack(panels, term, column, terms, end - column);
      multiply_block(kernel, p.columns(column, end), panels, term, terms);
    }
  }
}

// Threads share out columns, of which each copies its own part of B alone; or rows, where columns are few.
bool by_columns(const MatrixView& c, Count threads) { return pieces(c.columns, kTileColumns) >= kLeastPanels * threads; }

}  // namespace

bool pays_as_linear_product(const MatrixView& c, Count terms, Transpose transpose_b, int threads) {
  const bool shape = transpose_b == Transpose::yes || c.columns > terms;
  const Count beyond = pieces(c.columns, kTileColumns) * kTileColumns - c.columns;
  return shape && beyond <= c.columns / kMostBeyond && c.rows >= kLeastRows && terms >= kLeastTerms &&
         c.rows * c.columns * terms >= kLeastMultiplications && (by_columns(c, threads) || c.rows >= kLeastRows * threads);
}

void linear_product(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b, Transpose transpose_b,
                    const MatrixView& residual, const float* bias) {
  const Product whole{c, residual, a, b, transpose_b, bias};
  const bool columns = by_columns(c, host_threads());
  const Count size = columns ? c.columns : c.rows, tile = columns ? kTileColumns : kTileRows;
  for_runs(pieces(size, tile), [&](Count first, Count last, int) {
    const Count begin = first * tile, end = std::min(last * tile, size);
    if (begin < end) multiply_by_one_thread(kernel, columns ? whole.columns(begin, end) : whole.rows(begin, end));
  });
}

}  // namespace cohort::ops::cpu
