// A tile kernel for every processor, whose bits are those of the vector code.
#pragma once

#include <cmath>

#include "ops/cpu/tile_kernel.hpp"

namespace cohort::ops {

inline void plain_kernel(const cpu::Tile& tile) {
  const auto a = [&](Count i, Count term) { return tile.a[i * tile.a_row + term * tile.a_term]; };
  for (Count i = 0; i < tile.rows; ++i) {
    for (Count j = 0; j < tile.columns; ++j) {
      float sum = 0.0f;
      for (Count term = 0; term < tile.terms; ++term) sum = std::fma(a(i, term), tile.b[term * tile.b_row + j], sum);
      if (tile.addend != nullptr) sum = tile.addend[i * tile.addend_row + j] + sum;
      if (tile.bias != nullptr) sum += tile.bias[j];
      tile.c[i * tile.c_row + j] = sum;
    }
  }
}

}  // namespace cohort::ops
