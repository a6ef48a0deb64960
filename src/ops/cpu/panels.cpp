#include "ops/cpu/panels.hpp"

#include <cstring>

#include "base/machine.hpp"

namespace cohort::ops::cpu {
namespace {

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

// Rows [row, row + kTransposed) of the block, as columns of a panel that begin at `to`. Rows beyond the block are zeros.
void pack_some_rows(float* to, const MatrixView& block, Count row) {
  const Count rows = std::clamp<Count>(block.rows - row, 0, kTransposed);
  const Count whole = rows == kTransposed ? block.columns / kTransposed * kTransposed : 0;
  for (Count term = 0; term < whole; term += kTransposed)
    transpose(block.data + row * block.stride + term, block.stride, to + term * kTileColumns, kTileColumns);
  for (Count term = whole; term < block.columns; ++term) {
    for (Count i = 0; i < kTransposed; ++i)
      to[term * kTileColumns + i] = i < rows ? block.data[(row + i) * block.stride + term] : 0.0f;
  }
}

}  // namespace

// 9/16 of the cache, and the rest is for A and C. On that Xeon these are the 16 tiles that were measured; other caches were not.
// More than 16 would only take memory.
Count block_columns() {
  static const Count columns = [] {
    constexpr Bytes kPanel = kBlockTerms * kTileColumns * static_cast<Bytes>(sizeof(float));
    const Bytes known = second_level_cache(), cache = known > 0 ? known : kMiB;
    return std::clamp<Count>(cache * 9 / 16 / kPanel, 3, 16) * kTileColumns;
  }();
  return columns;
}

float* panels_of_block() {
  thread_local const PanelMemory memory(kBlockTerms * block_columns());
  return memory.data();
}

void pack_columns(float* panels, const MatrixView& block) { pack<kTileColumns>(panels, block); }
void pack_narrow_columns(float* panels, const MatrixView& block) { pack<kTileRows>(panels, block); }

void pack_rows(float* panels, const MatrixView& block) {
  static_assert(kTileColumns % kTransposed == 0 && kTransposed == kTileLanes);
  for (Count row = 0; row < block.rows; row += kTileColumns) {
    float* const panel = panels + row * block.columns;
    for (Count part = 0; part < kTileColumns && row + part < block.rows; part += kTransposed)
      pack_some_rows(panel + part, block, row + part);
  }
}

}  // namespace cohort::ops::cpu
