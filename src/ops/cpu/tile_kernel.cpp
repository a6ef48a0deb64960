#include "ops/cpu/tile_kernel.hpp"

#if defined(__x86_64__)
#pragma GCC diagnostic push  // gcc 12 warns of what its own header leaves undefined on purpose
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <utility>
#endif

namespace cohort::ops::cpu {
namespace {

void transpose_plainly(const float* from, Count from_row, float* to, Count to_row) {
  for (Count i = 0; i < kTransposed; ++i) {
    for (Count j = 0; j < kTransposed; ++j) to[j * to_row + i] = from[i * from_row + j];
  }
}

}  // namespace

#if defined(__x86_64__)

namespace {

constexpr int kVectorLanes = kTileLanes, kMostVectors = kTileColumns / kVectorLanes;

// Which way neighbours in a lie.
enum class Along { terms, rows };
// Along rows, gcc would keep too much of several terms in registers.
template <Along kAlong>
constexpr int kTermsAtOnce = kAlong == Along::rows ? 1 : 4;

// The lanes of the vector that c has.
__mmask16 lanes_of(const Tile& tile, int vector) {
  const Count left = tile.columns - vector * kVectorLanes;
  return static_cast<__mmask16>(left >= kVectorLanes ? 0xffff : (1 << (left > 0 ? left : 0)) - 1);
}

template <int kHeight, int kVectors>
[[gnu::target("avx512f"), gnu::always_inline]] inline void store_tile(const Tile& tile, const __m512 (&sums)[kHeight][kVectors]) {
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const __mmask16 lanes = lanes_of(tile, v);
    const __m512 bias = tile.bias != nullptr ? _mm512_maskz_loadu_ps(lanes, tile.bias + v * kVectorLanes) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      __m512 sum = sums[i][v];
      if (tile.addend != nullptr)
        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, tile.addend + i * tile.addend_row + v * kVectorLanes), sum);
      if (tile.bias != nullptr) sum = _mm512_add_ps(sum, bias);
      _mm512_mask_storeu_ps(tile.c + i * tile.c_row + v * kVectorLanes, lanes, sum);
    }
  }
}

// Where a tile's rows of a are at one term, by threes: addresses know a stride once and twice. With a pointer for each row gcc
// would run out of registers. Those beyond the last row are not used.
struct RowsOfA {
  const float *first, *fourth, *seventh;
  Count stride;

  RowsOfA(const float* a, Count row) : first(a), fourth(a + 3 * row), seventh(a + 6 * row), stride(row) {}
  [[gnu::always_inline]] void advance(Count elements) {
    first += elements, fourth += elements, seventh += elements;
    asm("" : "+r"(first), "+r"(fourth), "+r"(seventh));  // which gcc would otherwise make one for each row
  }
  [[gnu::always_inline]] float at(int i, Count offset) const {
    const float* const three = i < 3 ? first : i < 6 ? fourth : seventh;
    return three[i % 3 * stride + offset];
  }
};

// Loops of known lengths, which the compiler must unroll: sums are registers.
template <int kHeight, int kVectors>
[[gnu::target("avx512f"), gnu::always_inline]] inline void add_term(__m512 (&sums)[kHeight][kVectors], const RowsOfA& a,
                                                                    Count offset, const float* b) {
  __m512 vectors[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) vectors[v] = _mm512_loadu_ps(b + v * kVectorLanes);
#pragma GCC unroll 8
  for (int i = 0; i < kHeight; ++i) {
    const __m512 ai = _mm512_set1_ps(a.at(i, offset));
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_fmadd_ps(ai, vectors[v], sums[i][v]);
  }
}

template <int kHeight, int kVectors, Along kAlong>
[[gnu::target("avx512f")]] void add_tile(const Tile& tile) {
  for (int i = 0; i < kHeight; ++i) {
    for (int v = 0; v < kVectors; ++v) _mm_prefetch(tile.c + i * tile.c_row + v * kVectorLanes, _MM_HINT_T0);
  }
  const Count next = kAlong == Along::rows ? tile.a_term : 1;
  RowsOfA a(tile.a, kAlong == Along::rows ? 1 : tile.a_row);
  const float* b = tile.b;
  __m512 sums[kHeight][kVectors] = {};
  constexpr int kAtOnce = kTermsAtOnce<kAlong>;
  Count term = 0;
  for (; term + kAtOnce <= tile.terms; term += kAtOnce) {
#pragma GCC unroll 4
    for (int t = 0; t < kAtOnce; ++t) {
      add_term(sums, a, t, b);
      b += tile.b_row;
    }
    a.advance(kAtOnce * next);
  }
  for (; term < tile.terms; ++term) {
    add_term(sums, a, 0, b);
    a.advance(next);
    b += tile.b_row;
  }
  store_tile(tile, sums);
}

template <Along kAlong, int... kSizes>
void add_tile_of_any_size(const Tile& tile, std::integer_sequence<int, kSizes...>) {
  static constexpr TileKernel kOfSize[] = {add_tile<kSizes / kMostVectors + 1, kSizes % kMostVectors + 1, kAlong>...};
  kOfSize[(tile.rows - 1) * kMostVectors + (tile.columns - 1) / kVectorLanes](tile);
}

void add_any_tile(const Tile& tile) {
  constexpr std::make_integer_sequence<int, kTileRows * kMostVectors> kSizes;
  return tile.a_row == 1 ? add_tile_of_any_size<Along::rows>(tile, kSizes) : add_tile_of_any_size<Along::terms>(tile, kSizes);
}

// Pairs of rows, then pairs of pairs, interleaved within each quarter of a vector; then the quarters find their places.
[[gnu::target("avx512f")]] void transpose_vectors(const float* from, Count from_row, float* to, Count to_row) {
  __m512 fours[kTransposed];  // [4 q + j]: rows 4 q to 4 q + 3 of columns j, j + 4, j + 8 and j + 12
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const float* const rows = from + 4 * q * from_row;
    const __m512 r0 = _mm512_loadu_ps(rows), r1 = _mm512_loadu_ps(rows + from_row);
    const __m512 r2 = _mm512_loadu_ps(rows + 2 * from_row), r3 = _mm512_loadu_ps(rows + 3 * from_row);
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1)), high01 = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3)), high23 = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
    fours[4 * q] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    fours[4 * q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    fours[4 * q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    fours[4 * q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;  // quarters 0 and 2, or 1 and 3, of both
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 even01 = _mm512_shuffle_f32x4(fours[j], fours[4 + j], kEven);
    const __m512 odd01 = _mm512_shuffle_f32x4(fours[j], fours[4 + j], kOdd);
    const __m512 even23 = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], kEven);
    const __m512 odd23 = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], kOdd);
    _mm512_storeu_ps(to + j * to_row, _mm512_shuffle_f32x4(even01, even23, kEven));
    _mm512_storeu_ps(to + (4 + j) * to_row, _mm512_shuffle_f32x4(odd01, odd23, kEven));
    _mm512_storeu_ps(to + (8 + j) * to_row, _mm512_shuffle_f32x4(even01, even23, kOdd));
    _mm512_storeu_ps(to + (12 + j) * to_row, _mm512_shuffle_f32x4(odd01, odd23, kOdd));
  }
}

bool has_avx512() { return __builtin_cpu_supports("avx512f"); }

}  // namespace

TileKernel tile_kernel() { return has_avx512() ? add_any_tile : nullptr; }

void transpose(const float* from, Count from_row, float* to, Count to_row) {
  static const auto kernel = has_avx512() ? transpose_vectors : transpose_plainly;
  kernel(from, from_row, to, to_row);
}

#else

TileKernel tile_kernel() { return nullptr; }

void transpose(const float* from, Count from_row, float* to, Count to_row) { transpose_plainly(from, from_row, to, to_row); }

#endif

}  // namespace cohort::ops::cpu
