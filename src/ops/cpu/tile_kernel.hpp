// The innermost loop of a matrix product, in vector registers: all sums of a tile of C at once. Which file has it depends on the
// processor that is compiled for; whether the processor at hand can run it is asked when it is used.
#pragma once

#include "base/units.hpp"

namespace cohort::ops::cpu {

// 24 registers of sums, 2 of b and 1 of a, of the 32 of AVX-512: two FMA units of a latency of 4 need 8 sums to be busy.
inline constexpr Count kTileRows = 12, kTileColumns = 32;

/// c [rows, columns] += a^T b, the terms of each sum in order, whatever the size of the tile.
struct Tile {
  Count rows, columns;  // at least 1, at most kTileRows and kTileColumns
  Count terms;
  const float* a;  // [terms, kTileRows]
  const float* b;  // [terms, kTileColumns]
  float* c;
  Count c_stride;
};

/// Null: this processor has none.
void (*tile_kernel())(const Tile& tile);

}  // namespace cohort::ops::cpu
