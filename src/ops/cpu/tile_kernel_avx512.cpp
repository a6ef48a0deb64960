#include <immintrin.h>

#include <utility>

#include "ops/cpu/tile_kernel.hpp"

namespace cohort::ops::cpu {
namespace {

constexpr int kLanes = 16, kVectors = kTileColumns / kLanes;
// b is fetched so many terms ahead: it comes from the second-level cache, a from the first.
constexpr int kTermsAhead = 8;

// Loops of known lengths, which the compiler must unroll: sums are registers.
template <int kRows>
[[gnu::target("avx512f")]] void add_product(const Tile& tile) {
  for (int i = 0; i < kRows; ++i) {
    _mm_prefetch(tile.c + i * tile.c_stride, _MM_HINT_T0);
    _mm_prefetch(tile.c + i * tile.c_stride + kLanes, _MM_HINT_T0);
  }
  __m512 sums[kRows][kVectors] = {};
  const float* a = tile.a;
  const float* b = tile.b;
  for (Count term = 0; term < tile.terms; ++term) {
    _mm_prefetch(b + kTermsAhead * kTileColumns, _MM_HINT_T0);
    _mm_prefetch(b + kTermsAhead * kTileColumns + kLanes, _MM_HINT_T0);
    const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512 ai = _mm512_set1_ps(a[i]);
      sums[i][0] = _mm512_fmadd_ps(ai, b0, sums[i][0]);
      sums[i][1] = _mm512_fmadd_ps(ai, b1, sums[i][1]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
  const auto lanes = [&](int vector) {  // those of the vector that C has
    const Count left = tile.columns - vector * kLanes;
    return static_cast<__mmask16>(left >= kLanes ? 0xffff : (1 << (left > 0 ? left : 0)) - 1);
  };
  const __mmask16 masks[kVectors] = {lanes(0), lanes(1)};
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* const c = tile.c + i * tile.c_stride + v * kLanes;
      _mm512_mask_storeu_ps(c, masks[v], _mm512_add_ps(_mm512_maskz_loadu_ps(masks[v], c), sums[i][v]));
    }
  }
}

template <int... kRows>
void add_product_of_rows(const Tile& tile, std::integer_sequence<int, kRows...>) {
  static constexpr void (*kKernels[])(const Tile&) = {add_product<kRows + 1>...};
  kKernels[tile.rows - 1](tile);
}

void add_any_product(const Tile& tile) { add_product_of_rows(tile, std::make_integer_sequence<int, kTileRows>()); }

}  // namespace

void (*tile_kernel())(const Tile&) { return __builtin_cpu_supports("avx512f") ? add_any_product : nullptr; }

}  // namespace cohort::ops::cpu
