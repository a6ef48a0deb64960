#include <bit>

#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/embedding/token_sort.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
// A block sorts a tile of as many rows as it has threads.
constexpr int kTile = 1024;
constexpr int kWarps = kTile / 32;

Count tiles_of(Count rows) { return divide_up(rows, kTile); }

__device__ __forceinline__ int digit_of(int token, int shift) { return (token >> shift) & (kDigits - 1); }

// counts[digit, tile] = how often the digit occurs in the tile.
__global__ void __launch_bounds__(kTile) count_digits(int* counts, const std::int32_t* __restrict__ tokens, int rows, int shift) {
  __shared__ int shared[kDigits];
  if (threadIdx.x < kDigits) shared[threadIdx.x] = 0;
  __syncthreads();
  const int i = static_cast<int>(blockIdx.x * kTile + threadIdx.x);
  if (i < rows) atomicAdd(&shared[digit_of(tokens[i], shift)], 1);  // of integers: any order gives the same
  __syncthreads();
  if (threadIdx.x < kDigits) counts[threadIdx.x * gridDim.x + blockIdx.x] = shared[threadIdx.x];
}

// The sum over the lanes before this one.
__device__ __forceinline__ int warp_prefix(int value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int sum = value;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int before = __shfl_up_sync(kAllLanes, sum, offset);
    if (lane >= offset) sum += before;
  }
  return sum - value;
}

// Replaces each count by the sum of those before it: where the rows of that digit and tile begin. One block; each thread takes a
// stretch of the counts.
__global__ void __launch_bounds__(kTile) add_up_counts(int* counts, int size) {
  __shared__ int shared[kWarps];
  const int stretch = (size + kTile - 1) / kTile;
  const int begin = min(size, static_cast<int>(threadIdx.x) * stretch);
  const int end = min(size, begin + stretch);
  int mine = 0;
  for (int i = begin; i < end; ++i) mine += counts[i];
  const int before_in_warp = warp_prefix(mine);
  if (threadIdx.x % 32 == 31) shared[threadIdx.x / 32] = before_in_warp + mine;
  __syncthreads();
  if (threadIdx.x < kWarps) shared[threadIdx.x] = warp_prefix(shared[threadIdx.x]);
  __syncthreads();
  int sum = shared[threadIdx.x / 32] + before_in_warp;
  for (int i = begin; i < end; ++i) {
    const int count = counts[i];
    counts[i] = sum;
    sum += count;
  }
}

// Puts each row behind the rows of smaller digits, and of the same digit in earlier tiles, warps and lanes. `rows_in` null: the
// rows are still in their own order.
__global__ void __launch_bounds__(kTile)
    scatter(std::int32_t* __restrict__ tokens_out, std::int32_t* __restrict__ rows_out,
            const std::int32_t* __restrict__ tokens_in, const std::int32_t* __restrict__ rows_in, const int* __restrict__ begins,
            int rows, int shift) {
  __shared__ int before[kWarps][kDigits];  // rows of the digit in the warp; then, in all warps before it
  for (int i = static_cast<int>(threadIdx.x); i < kWarps * kDigits; i += kTile) before[i / kDigits][i % kDigits] = 0;
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned lanes_before = (1u << (threadIdx.x % 32)) - 1;
  const int i = static_cast<int>(blockIdx.x * kTile + threadIdx.x);
  const bool inside = i < rows;
  const int token = inside ? tokens_in[i] : 0;
  const int digit = inside ? digit_of(token, shift) : kDigits;
  const unsigned same = __match_any_sync(kAllLanes, digit);
  const int rank = __popc(same & lanes_before);
  if (inside && rank == 0) before[warp][digit] = __popc(same);
  __syncthreads();
  if (threadIdx.x < kDigits) {
    int sum = begins[threadIdx.x * gridDim.x + blockIdx.x];
    for (int w = 0; w < kWarps; ++w) {
      const int count = before[w][threadIdx.x];
      before[w][threadIdx.x] = sum;
      sum += count;
    }
  }
  __syncthreads();
  if (!inside) return;
  const int place = before[warp][digit] + rank;
  tokens_out[place] = token;
  rows_out[place] = rows_in != nullptr ? rows_in[i] : i;
}

}  // namespace

Bytes sort_tokens_scratch_bytes(Count rows) { return (4 * rows + tiles_of(rows) * kDigits) * Bytes{sizeof(std::int32_t)}; }

SortedTokens sort_tokens(CUstream_st* stream, const std::int32_t* tokens, Count rows, Count vocabulary, void* scratch) {
  // Each pass goes from one pair of arrays to the other.
  std::int32_t* const memory = static_cast<std::int32_t*>(scratch);
  std::int32_t* const tokens_of[2] = {memory, memory + rows};
  std::int32_t* const rows_of[2] = {memory + 2 * rows, memory + 3 * rows};
  int* const counts = memory + 4 * rows;
  const auto tiles = static_cast<unsigned>(tiles_of(rows));
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(vocabulary - 1)));
  const int n = static_cast<int>(rows);

  SortedTokens sorted{tokens, nullptr};
  int turn = 0;
  for (int shift = 0; shift == 0 || shift < bits; shift += kDigitBits) {
    count_digits<<<tiles, kTile, 0, stream>>>(counts, sorted.tokens, n, shift);
    add_up_counts<<<1, kTile, 0, stream>>>(counts, static_cast<int>(tiles) * kDigits);
    scatter<<<tiles, kTile, 0, stream>>>(tokens_of[turn], rows_of[turn], sorted.tokens, sorted.rows, counts, n, shift);
    sorted = {tokens_of[turn], rows_of[turn]};
    turn ^= 1;
  }
  return sorted;
}

}  // namespace cohort::ops::cuda
