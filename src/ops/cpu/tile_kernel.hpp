// The innermost loop of a matrix product, in vector registers: all sums of a tile of C at once. Only x86-64 with AVX-512 has one,
// which is asked of the processor at hand, not of the one that is compiled for.
#pragma once

#include "base/units.hpp"

namespace cohort::ops::cpu {

// 24 registers of sums, 2 of b and 1 of a, of the 32 of AVX-512: two FMA units of a latency of 4 need 8 sums to be busy.
inline constexpr Count kTileRows = 12, kTileColumns = 32;

/// c [rows, columns] += a^T b: each sum begins with 0, takes its terms in order and each with one rounding, and is then added to
/// c. So its bits depend neither on the size of the tile nor on the kernel.
struct Tile {
  Count rows, columns;  // at least 1, at most kTileRows and kTileColumns
  Count terms;
  const float* a;  // [terms, kTileRows]
  const float* b;  // [terms, kTileColumns]
  float* c;
  Count c_stride;
};

using TileKernel = void (*)(const Tile& tile);

/// Null: this processor has none.
TileKernel tile_kernel();

}  // namespace cohort::ops::cpu
