#include "ops/cpu/attention_products.hpp"

#include <algorithm>
#include <utility>

#include "ops/cpu/panels.hpp"
#include "ops/host_loop.hpp"

namespace cohort::ops {
namespace {

using cpu::block_of, cpu::kTileColumns, cpu::kTileLanes, cpu::kTileRows, cpu::pieces, cpu::TileKernel;

// Columns of one tile of `columns`: tiles of about the same width, in whole vectors.
Count even_columns(Count columns) {
  const Count vectors = pieces(columns, kTileLanes);
  return pieces(vectors, pieces(columns, kTileColumns)) * kTileLanes;
}

// c (+)= a b for b as it lies, where terms_of(row, rows) are the terms [begin, end) that matter to these rows.
template <class TermsOf>
void product(TileKernel kernel, const MatrixView& c, const float* a, Count a_row, Count a_term, const MatrixView& b, bool add,
             const TermsOf& terms_of) {
  const Count width = even_columns(c.columns);
  for (Count j = 0; j < c.columns; j += width) {
    for (Count i = 0; i < c.rows; i += kTileRows) {
      const MatrixView tile = block_of(c, i, j, kTileRows, width);
      const auto [begin, end] = terms_of(i, tile.rows);
      kernel({.rows = tile.rows,
              .columns = tile.columns,
              .terms = end - begin,
              .a = a + i * a_row + begin * a_term,
              .a_row = a_row,
              .a_term = a_term,
              .b = b.data + begin * b.stride + j,
              .b_row = b.stride,
              .c = tile.data,
              .c_row = tile.stride,
              .addend = add ? tile.data : nullptr,
              .addend_row = tile.stride});
    }
  }
}

}  // namespace

TileKernel attention_kernel(Count head_size) {
  return head_size % kTileLanes == 0 && host_threads() == 1 ? cpu::allowed_tile_kernel() : nullptr;
}

Count packed_key_elements(Count keys, Count head_size) { return pieces(keys, kTileColumns) * kTileColumns * head_size; }

void pack_keys(float* packed, const MatrixView& keys) { cpu::pack_rows(packed, keys); }

void scores(const Exec& exec, TileKernel kernel, const SeenKeys& seen, const MatrixView& c, const MatrixView& a,
            const MatrixView& b, const float* packed) {
  if (kernel == nullptr) return gemm(exec, c, a, Transpose::no, b, Transpose::yes);
  for (Count j = 0; j < c.columns; j += kTileColumns) {
    for (Count i = 0; i < c.rows; i += kTileRows) {
      const Count rows = std::min(kTileRows, c.rows - i), end = seen.end[i + rows - 1];
      if (end <= j || seen.begin[i] >= j + kTileColumns) continue;
      kernel({.rows = rows,
              .columns = std::min(kTileColumns, end - j),
              .terms = a.columns,
              .a = a.data + i * a.stride,
              .a_row = a.stride,
              .a_term = 1,
              .b = packed + j * a.columns,
              .b_row = kTileColumns,
              .c = c.data + i * c.stride + j,
              .c_row = c.stride});
    }
  }
}

void times_keys(const Exec& exec, TileKernel kernel, const SeenKeys& seen, const MatrixView& c, const MatrixView& w,
                const MatrixView& b, bool add) {
  if (kernel == nullptr) return gemm(exec, c, w, Transpose::no, b, Transpose::no, 1.0f, add ? 1.0f : 0.0f);
  product(kernel, c, w.data, w.stride, 1, b, add,
          [&](Count query, Count rows) { return std::pair(seen.begin[query], seen.end[query + rows - 1]); });
}

void times_queries(const Exec& exec, TileKernel kernel, const SeenKeys& seen, const MatrixView& c, const MatrixView& w,
                   const MatrixView& b, bool add) {
  if (kernel == nullptr) return gemm(exec, c, w, Transpose::yes, b, Transpose::no, 1.0f, add ? 1.0f : 0.0f);
  product(kernel, c, w.data, 1, w.stride, b, add, [&](Count key, Count rows) {
    const Count first = std::upper_bound(seen.end, seen.end + w.rows, key) - seen.end;
    const Count end = std::lower_bound(seen.begin, seen.begin + w.rows, key + rows) - seen.begin;
    return std::pair(first, std::max(first, end));
  });
}

}  // namespace cohort::ops
