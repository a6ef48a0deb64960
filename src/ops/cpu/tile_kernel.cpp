#include "ops/cpu/tile_kernel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <utility>

namespace cohort::ops::cpu {
namespace {

constexpr int kVectorLanes = 16, kVectors = kTileColumns / kVectorLanes;
// b is fetched so many terms ahead: it comes from the second-level cache, a from the first.
constexpr int kTermsAhead = 8;

// Loops of known lengths, which the compiler must unroll: sums are registers.
template <int kHeight>
[[gnu::target("avx512f")]] void add_tile(const Tile& tile) {
  for (int i = 0; i < kHeight; ++i) {
    _mm_prefetch(tile.c + i * tile.c_stride, _MM_HINT_T0);
    _mm_prefetch(tile.c + i * tile.c_stride + kVectorLanes, _MM_HINT_T0);
  }
  __m512 sums[kHeight][kVectors] = {};
  const float* a = tile.a;
  const float* b = tile.b;
  for (Count term = 0; term < tile.terms; ++term) {
    _mm_prefetch(b + kTermsAhead * kTileColumns, _MM_HINT_T0);
    _mm_prefetch(b + kTermsAhead * kTileColumns + kVectorLanes, _MM_HINT_T0);
    const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + kVectorLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kHeight; ++i) {
      const __m512 ai = _mm512_set1_ps(a[i]);
      sums[i][0] = _mm512_fmadd_ps(ai, b0, sums[i][0]);
      sums[i][1] = _mm512_fmadd_ps(ai, b1, sums[i][1]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
  const auto lanes = [&](int vector) {  // those of the vector that C has
    const Count left = tile.columns - vector * kVectorLanes;
    return static_cast<__mmask16>(left >= kVectorLanes ? 0xffff : (1 << (left > 0 ? left : 0)) - 1);
  };
  const __mmask16 masks[kVectors] = {lanes(0), lanes(1)};
#pragma GCC unroll 12
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* const c = tile.c + i * tile.c_stride + v * kVectorLanes;
      _mm512_mask_storeu_ps(c, masks[v], _mm512_add_ps(_mm512_maskz_loadu_ps(masks[v], c), sums[i][v]));
    }
  }
}

template <int... kFewer>
void add_tile_of_any_height(const Tile& tile, std::integer_sequence<int, kFewer...>) {
  static constexpr TileKernel kOfHeight[] = {add_tile<kFewer + 1>...};
  kOfHeight[tile.rows - 1](tile);
}

void add_any_tile(const Tile& tile) { add_tile_of_any_height(tile, std::make_integer_sequence<int, kTileRows>()); }

}  // namespace

TileKernel tile_kernel() { return __builtin_cpu_supports("avx512f") ? add_any_tile : nullptr; }

}  // namespace cohort::ops::cpu

#else

namespace cohort::ops::cpu {

TileKernel tile_kernel() { return nullptr; }

}  // namespace cohort::ops::cpu

#endif
