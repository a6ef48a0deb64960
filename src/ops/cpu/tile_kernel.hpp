// The innermost loop of a matrix product, in vector registers: all sums of a tile of C at once. Only x86-64 with AVX-512 has one,
// which is asked of the processor at hand, not of the one that is compiled for.
#pragma once

#include "base/units.hpp"

namespace cohort::ops::cpu {

// 24 registers of sums, 3 of b and 1 of a, of the 32 of AVX-512: two FMA units of a latency of 4 need 8 sums to be busy. 12 rows
// of 32 load more for as many sums, and were slower on a busy machine (docs/performance.md).
inline constexpr Count kTileRows = 8, kTileColumns = 48;
inline constexpr Count kTileLanes = 16;  // columns are computed in vectors of so many

/// c [rows, columns] = addend + a b + bias: each sum of a b begins with 0, takes its terms in order and each with one
/// rounding; then addend and bias follow in this order. So its bits depend neither on the size of the tile nor on the
/// kernel.
struct Tile {
  Count rows, columns;  // at least 1, at most kTileRows and kTileColumns
  Count terms;
  const float* a;  // row i and term t at a[i * a_row + t * a_term]; one of the two is 1
  Count a_row, a_term;
  const float* b;  // [terms, columns]; what fills up its last kTileLanes columns is read, too
  Count b_row;     // elements from one row to the next, as below
  float* c;
  Count c_row;
  const float* addend = nullptr;  // null: none; as c, and may be c
  Count addend_row = 0;
  const float* bias = nullptr;  // [columns]; null: none
};

using TileKernel = void (*)(const Tile& tile);

/// Null: this processor has none.
TileKernel tile_kernel();

/// The same, or null where products must do without: with CBLAS, and where ONEDNN_MAX_CPU_ISA rules AVX-512 out.
TileKernel allowed_tile_kernel();

inline constexpr Count kTransposed = 16;

/// to[j * to_row + i] = from[i * from_row + j] for i and j below kTransposed.
void transpose(const float* from, Count from_row, float* to, Count to_row);

}  // namespace cohort::ops::cpu
