#include <cuda_fp8.h>

#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/fp8/fp8_quantize.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kThreads = 256;

// ---- The largest element. Sizes of bf16 are ordered as their bits without the sign, infinity and NaN at the end.

constexpr int kAhead = 4;  // packs that a thread has on their way at one time

__device__ __forceinline__ unsigned larger_sizes(unsigned sizes, unsigned pair) { return __vmaxu2(sizes, pair & 0x7fff7fffu); }

__global__ void __launch_bounds__(kThreads) find_largest(unsigned* largest, const uint4* __restrict__ x, Count packs) {
  __shared__ unsigned shared[kThreads / 32];
  const Count step = Count{gridDim.x} * kThreads;
  unsigned sizes = 0;  // two of them
  for (Count i = Count{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += kAhead * step) {
    uint4 ahead[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) ahead[k] = i + k * step < packs ? x[i + k * step] : uint4{0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      sizes = larger_sizes(sizes, ahead[k].x);
      sizes = larger_sizes(sizes, ahead[k].y);
      sizes = larger_sizes(sizes, ahead[k].z);
      sizes = larger_sizes(sizes, ahead[k].w);
    }
  }
  const unsigned upper = sizes >> 16, lower = sizes & 0xffffu;
  const unsigned of_warp = __reduce_max_sync(kAllLanes, upper > lower ? upper : lower);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const unsigned of_block = __reduce_max_sync(kAllLanes, threadIdx.x < kThreads / 32 ? shared[threadIdx.x] : 0u);
  if (threadIdx.x == 0) atomicMax(largest, of_block << 16);  // as the bits of an fp32
}

// ---- Rounding.

template <Fp8 kFormat>
inline constexpr __nv_fp8_interpretation_t kInterpretation = kFormat == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2;

// The codes of a pair of bf16, the first in the lower byte.
template <Fp8 kFormat>
__device__ __forceinline__ unsigned codes_of_pair(unsigned pair, float multiplier) {
  const float2 values{multiplier * __uint_as_float(pair << 16), multiplier * __uint_as_float(pair & 0xffff0000u)};
  return __nv_cvt_float2_to_fp8x2(values, __NV_SATFINITE, kInterpretation<kFormat>);
}

// Of 8 bf16.
template <Fp8 kFormat>
__device__ __forceinline__ uint2 codes_of(const uint4& x, float multiplier) {
  return {codes_of_pair<kFormat>(x.x, multiplier) | codes_of_pair<kFormat>(x.y, multiplier) << 16,
          codes_of_pair<kFormat>(x.z, multiplier) | codes_of_pair<kFormat>(x.w, multiplier) << 16};
}

// For every thread; one of the grid leaves the scale for the product. Its inverse is exact: a power of two, or NaN.
template <Fp8 kFormat>
__device__ __forceinline__ float multiplier_of(const float* largest, float* scale) {
  const float multiplier = fp8_multiplier(kFormat, *largest);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = 1.0f / multiplier;
  return multiplier;
}

template <Fp8 kFormat>
__global__ void __launch_bounds__(kThreads)
    quantize_rows(uint4* codes, float* scale, const float* __restrict__ largest, const uint4* __restrict__ x, Count count) {
  const float multiplier = multiplier_of<kFormat>(largest, scale);
  const Count i = Count{blockIdx.x} * kThreads + threadIdx.x;  // of 16 elements
  if (i >= count) return;
  const uint4 first = x[2 * i], second = x[2 * i + 1];
  const uint2 low = codes_of<kFormat>(first, multiplier), high = codes_of<kFormat>(second, multiplier);
  codes[i] = {low.x, low.y, high.x, high.y};
}

// A block does a tile of 128 rows and 128 columns, each of its threads a square of 8 x 8: rows that a warp reads or writes are
// whole lines of 256 or 128 bytes. The squares are transposed in registers and put together in shared memory, where a column of
// the tile is 128 bytes, 8 chunks of 16. Chunk c of column j lies at place c ^ (j / 8) % 8, so that neither the 8-byte writes of
// a half-warp nor the 16-byte reads of a quarter meet in a bank.
constexpr int kTile = 128;
constexpr int kSquare = 8;
constexpr int kChunk = 16;

struct Place {
  int row, column;  // of a thread's square in the tile
};
// A half-warp has 8 squares side by side in 2 rows of squares; its other half those to their right.
__device__ __forceinline__ Place place_of_thread() {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  return {kSquare * (2 * warp + lane / 8 % 2), kSquare * (lane % 8 + lane / 16 * 8)};
}

// Rows of 4 bytes to columns: byte j of to[i] is byte i of from[j].
__device__ __forceinline__ void transpose_bytes(unsigned (&to)[4], unsigned a, unsigned b, unsigned c, unsigned d) {
  const unsigned ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
  const unsigned cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
  to[0] = __byte_perm(ab_low, cd_low, 0x5410);
  to[1] = __byte_perm(ab_low, cd_low, 0x7632);
  to[2] = __byte_perm(ab_high, cd_high, 0x5410);
  to[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

__device__ __forceinline__ int offset_in_tile(int column, int row) {
  return column * kTile + (row / kChunk ^ column / kSquare % 8) * kChunk + row % kChunk;
}

// The codes of a square by rows go into the tile by columns.
__device__ __forceinline__ void put_transposed(unsigned char* tile, const uint2 (&codes)[kSquare], const Place& place) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // of the columns
    unsigned upper[4], lower[4];          // rows 0 to 3, and 4 to 7
    const auto words = [&](int row) { return half == 0 ? codes[row].x : codes[row].y; };
    transpose_bytes(upper, words(0), words(1), words(2), words(3));
    transpose_bytes(lower, words(4), words(5), words(6), words(7));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = place.column + 4 * half + j;
      *reinterpret_cast<uint2*>(tile + offset_in_tile(column, place.row)) = {upper[j], lower[j]};
    }
  }
}

template <Fp8 kFormat, bool kRows>
__global__ void __launch_bounds__(kThreads)
    quantize_tiles(unsigned char* rows, unsigned char* transposed, float* scale, const float* __restrict__ largest,
                   const __nv_bfloat16* __restrict__ x, Count row_count, Count columns, unsigned tiles_wide) {
  __shared__ __align__(16) unsigned char tile[kTile * kTile];
  const float multiplier = multiplier_of<kFormat>(largest, scale);
  const Count first_row = Count{blockIdx.x / tiles_wide} * kTile, first_column = Count{blockIdx.x % tiles_wide} * kTile;
  const Place place = place_of_thread();
  const Count row = first_row + place.row, column = first_column + place.column;
  if (row < row_count && column < columns) {  // sides are multiples of 16: a square is inside or outside
    const Count at = row * columns + column;
    uint4 values[kSquare];
#pragma unroll
    for (int i = 0; i < kSquare; ++i) values[i] = *reinterpret_cast<const uint4*>(x + at + i * columns);
    uint2 codes[kSquare];
#pragma unroll
    for (int i = 0; i < kSquare; ++i) codes[i] = codes_of<kFormat>(values[i], multiplier);
    if constexpr (kRows) {
#pragma unroll
      for (int i = 0; i < kSquare; ++i) *reinterpret_cast<uint2*>(rows + at + i * columns) = codes[i];
    }
    put_transposed(tile, codes, place);
  }
  __syncthreads();
#pragma unroll
  for (int chunk = static_cast<int>(threadIdx.x); chunk < kTile * kTile / kChunk; chunk += kThreads) {
    const int of_tile = chunk / (kTile / kChunk), from = chunk % (kTile / kChunk) * kChunk;  // a column, and its row
    if (first_column + of_tile >= columns || first_row + from >= row_count) continue;
    const uint4 codes = *reinterpret_cast<const uint4*>(tile + offset_in_tile(of_tile, from));
    *reinterpret_cast<uint4*>(transposed + (first_column + of_tile) * row_count + first_row + from) = codes;
  }
}

template <Fp8 kFormat>
void launch(CUstream_st* stream, void* rows, void* transposed, float* scale, const float* largest, const void* x, Count row_count,
            Count columns) {
  if (transposed == nullptr) {
    const Count count = row_count * columns / kChunk;
    quantize_rows<kFormat><<<static_cast<unsigned>(divide_up(count, kThreads)), kThreads, 0, stream>>>(
        static_cast<uint4*>(rows), scale, largest, static_cast<const uint4*>(x), count);
    return;
  }
  const auto tiles_wide = static_cast<unsigned>(divide_up(columns, kTile));
  const unsigned tiles = tiles_wide * static_cast<unsigned>(divide_up(row_count, kTile));
  const auto kernel = rows != nullptr ? quantize_tiles<kFormat, true> : quantize_tiles<kFormat, false>;
  kernel<<<tiles, kThreads, 0, stream>>>(static_cast<unsigned char*>(rows), static_cast<unsigned char*>(transposed), scale,
                                         largest, static_cast<const __nv_bfloat16*>(x), row_count, columns, tiles_wide);
}

}  // namespace

void largest_size(CUstream_st* stream, float* largest, const void* x, Count elements) {
  cudaMemsetAsync(largest, 0, sizeof(float), stream);
  const Count packs = elements / 8;
  if (packs == 0) return;
  static const Count resident = resident_blocks(find_largest, kThreads);
  const Count needed = divide_up(packs, Count{kThreads} * kAhead);
  find_largest<<<static_cast<unsigned>(needed < resident ? needed : resident), kThreads, 0, stream>>>(
      reinterpret_cast<unsigned*>(largest), static_cast<const uint4*>(x), packs);
}

void quantize(CUstream_st* stream, Fp8 format, void* rows, void* transposed, float* scale, const float* largest, const void* x,
              Count row_count, Count columns) {
  if (row_count == 0 || columns == 0) return;
  if (format == Fp8::e4m3) launch<Fp8::e4m3>(stream, rows, transposed, scale, largest, x, row_count, columns);
  if (format == Fp8::e5m2) launch<Fp8::e5m2>(stream, rows, transposed, scale, largest, x, row_count, columns);
}

}  // namespace cohort::ops::cuda
