// The innermost loop of a matrix product, in vector registers: all sums of a tile of C at once. Only x86-64 with AVX-512 has one,
// which is asked of the processor at hand, not of the one that is compiled for.
#pragma once

#include "base/units.hpp"

namespace cohort::ops::cpu {

// 24 registers of sums, 2 of b and 1 of a, of the 32 of AVX-512: two FMA units of a latency of 4 need 8 sums to be busy.
inline constexpr Count kTileRows = 12, kTileColumns = 32;

/// c [rows, columns] = addend + scale a b + bias: each sum of a b begins with 0, takes its terms in order and each with one
/// rounding; then scale, addend and bias follow in this order. So its bits depend neither on the size of the tile nor on the
/// kernel.
struct Tile {
  Count rows, columns;  // at least 1, at most kTileRows and kTileColumns
  Count terms;
  const float* a;                 // of row i and term t at a[i * a_row + t * a_term], one of which is 1
  Count a_row, a_term;            //
  const float* b;                 // [terms, kTileColumns]
  float* c;                       // elements to the next row: c_row
  Count c_row;                    //
  const float* addend = nullptr;  // null: none; as c, and may be c
  Count addend_row = 0;
  const float* bias = nullptr;  // [columns]; null: none
  float scale = 1.0f;
};

using TileKernel = void (*)(const Tile& tile);

/// Null: this processor has none.
TileKernel tile_kernel();

inline constexpr Count kTransposed = 16;

/// to[j * to_row + i] = from[i * from_row + j] for i and j below kTransposed.
void transpose(const float* from, Count from_row, float* to, Count to_row);

}  // namespace cohort::ops::cpu
