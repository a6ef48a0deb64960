// What our own products of a CPU share: the blocks of their matrices, and copies of these in panels, where elements lie in the
// order in which a tile kernel reads them.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "ops/cpu/tile_kernel.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops::cpu {

// Terms of a block, as measured on a Xeon (family 6, model 207) with 2 MB of second-level cache a core; 256 and 512 were not
// faster.
inline constexpr Count kBlockTerms = 384;

/// Columns of a block of B, a multiple of kTileColumns: what a core's second-level cache holds beside parts of A and C.
Count block_columns();

/// This thread's memory for a block of B in panels, up to 1.2 MB.
float* panels_of_block();

/// The block's columns in panels of kTileColumns, and of kTileRows: panel p is [rows, width] at p * rows * width. The last one is
/// filled up with zeros.
void pack_columns(float* panels, const MatrixView& block);
void pack_narrow_columns(float* panels, const MatrixView& block);
/// pack_columns of the block's transpose: its rows are the columns of the panels, filled up to a multiple of kTileLanes.
void pack_rows(float* panels, const MatrixView& block);

/// Memory whose every 64 bytes lie in one line of the cache, as vectors of a panel should.
class PanelMemory {
 public:
  explicit PanelMemory(Count elements)
      : memory_(static_cast<float*>(::operator new(static_cast<std::size_t>(elements) * sizeof(float), kLine))) {}
  float* data() const { return memory_.get(); }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Release {
    void operator()(float* memory) const { ::operator delete(memory, kLine); }
  };
  std::unique_ptr<float, Release> memory_;
};

inline MatrixView block_of(const MatrixView& m, Count row, Count column, Count most_rows, Count most_columns) {
  return {m.data + row * m.stride + column, std::min(most_rows, m.rows - row), std::min(most_columns, m.columns - column),
          m.stride};
}

inline MatrixView columns_between(const MatrixView& m, Count begin, Count end) {
  return {m.data + begin, m.rows, end - begin, m.stride};
}

inline MatrixView rows_between(const MatrixView& m, Count begin, Count end) {
  return {m.data + begin * m.stride, end - begin, m.columns, m.stride};
}

inline Count pieces(Count size, Count piece) { return (size + piece - 1) / piece; }

}  // namespace cohort::ops::cpu
