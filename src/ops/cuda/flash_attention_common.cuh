// What all kernels of the portable flash attention share: where the heads lie, and which weights dropout keeps.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/random.hpp"
#include "ops/cuda/flash_attention.hpp"

namespace cohort::ops::cuda::flash {

/// AttentionShape for device code, in ints: flash_attention_supports sees to it that the elements of one sample can be counted
/// so. A head of the packed row is named by its column: query heads first, then key, then value heads.
struct Sizes {
  int batch, tokens, heads, kv_heads, head_size;
  float scale;  // 1 / sqrt(HS)

  __host__ __device__ int packed_width() const { return head_size * (heads + 2 * kv_heads); }
  __host__ __device__ int width() const { return head_size * heads; }
  /// Query heads that share a key/value head.
  __host__ __device__ int group() const { return heads / kv_heads; }

  __device__ int key_column(int kv) const { return heads + kv; }
  __device__ int value_column(int kv) const { return heads + kv_heads + kv; }
  /// First element of a head of sample b in qkv, in out, and of its row statistics.
  __device__ Count packed_offset(int b, int column) const { return Count{b} * tokens * packed_width() + column * head_size; }
  __device__ Count out_offset(int b, int h) const { return Count{b} * tokens * width() + h * head_size; }
  __device__ Count row_offset(int b, int h) const { return (Count{b} * heads + h) * tokens; }
};

Sizes sizes_of(const AttentionShape& shape);

/// Which block of rows of which head a thread block works on. The blocks of one head are neighbours in the launch, so that its
/// keys and values are read from the second-level cache after the first time. Within a head the heaviest block comes first: the
/// light ones then fill the gaps at the end of the launch.
struct WorkItem {
  int block;  // counted in launch order
  int head;   // 0 to heads - 1
  int b;

  __device__ WorkItem(int blocks, int heads) {
    const int item = static_cast<int>(blockIdx.x) / blocks;
    block = static_cast<int>(blockIdx.x) % blocks;
    head = item % heads;
    b = item / heads;
  }
};

__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

/// The dropout decisions of one head of one sample; see FlashDropout.
class DropoutMask {
 public:
  __device__ DropoutMask(const FlashDropout& dropout, const Sizes& s, int b, int h)
      : random_(dropout.seed, RandomPurpose::dropout, dropout.step, dropout.layer),
        threshold_(dropout.threshold),
        tokens_(static_cast<std::uint64_t>(s.tokens)),
        first_(0) {
    if (threshold_ == 0) return;
    const Count heads = dropout.all_heads == 0 ? s.heads : dropout.all_heads;
    first_ = static_cast<std::uint64_t>(dropout.slots[b] * heads + dropout.first_head + h) * tokens_ * tokens_;
  }

  __device__ bool active() const { return threshold_ != 0; }
  __device__ bool keeps(int query, int key) const {
    return (random_.u64(first_ + static_cast<std::uint64_t>(query) * tokens_ + key) >> 11) >= threshold_;
  }

 private:
  CounterRandom random_;
  std::uint64_t threshold_;
  std::uint64_t tokens_;
  std::uint64_t first_;
};

/// Bit 4 n + i is set when dropout keeps element [n][i] of the calling lane's share of N tiles of 16 x 8, as mma spreads them.
/// The first row and the first column of the tiles are `row` and `column`; one of them counts queries, the other keys.
template <int N, bool kRowsAreKeys>
__device__ std::uint32_t keep_bits(const DropoutMask& mask, int row, int column) {
  static_assert(4 * N <= 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t bits = 0;
#pragma unroll 1  // the ten rounds of the generator, once in the code instead of 4 N times
  for (int e = 0; e < 4 * N; ++e) {
    const int r = row + lane / 4 + 4 * (e & 2);
    const int c = column + 2 * (lane % 4) + 8 * (e / 4) + (e & 1);
    bits |= static_cast<std::uint32_t>(kRowsAreKeys ? mask.keeps(c, r) : mask.keeps(r, c)) << e;
  }
  return bits;
}

/// Grants a kernel its dynamic shared memory (more than 48 KiB has to be asked for) and launches it.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), CUstream_st* stream, Count blocks, int threads, int shared_bytes,
            Arguments... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), static_cast<std::size_t>(shared_bytes), stream>>>(
      arguments...);
}

/// The fp32 rung; arguments as in flash_attention.hpp.
void forward_fp32(CUstream_st* stream, const Sizes& s, float* out, float* lse, const float* qkv, const FlashDropout& dropout);
void backward_fp32(CUstream_st* stream, const Sizes& s, float* dqkv, const float* dout, const float* out, const float* lse,
                   const float* qkv, float* delta, const FlashDropout& dropout);

}  // namespace cohort::ops::cuda::flash
