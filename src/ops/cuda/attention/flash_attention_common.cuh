// What all kernels of the portable flash attention share: where the heads lie, and which weights dropout keeps.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/random.hpp"
#include "ops/cuda/attention/flash_attention.hpp"

namespace cohort::ops::cuda::flash {

/// Rows of an activation as they lie in memory: element (sample b, row r, column c) is at b * sample + r * stride + c.
struct Rows {
  Count sample;
  int stride;
};

/// The problem as the kernels see it, whole attention and a block of it alike: `queries` rows of each sample against `keys` rows.
/// Ints will do: flash_attention_supports sees to it that the elements of one sample can be counted so. Pointers that come with
/// it point to the first of these rows, and to the first head.
struct Sizes {
  int batch, heads, kv_heads, head_size;
  float scale;  // 1 / sqrt(HS)
  int queries, keys;
  int query_position, key_position;  // of the first of each in the whole sequence
  int tokens;                        // T of the whole sequence
  Rows q, kv, out, dq, dkv;          // dout is like out
  int lse_rows;                      // of one head in lse
  bool block;                        // results are fp32, and gradients are added to what is there

  /// Query heads that share a key/value head.
  __host__ __device__ int group() const { return heads / kv_heads; }
  /// Query i sees the keys up to i + shift.
  __device__ int shift() const { return query_position - key_position; }
  /// How many keys, from the first on, query i sees.
  __device__ int visible_keys(int i) const { return max(0, min(i + shift() + 1, keys)); }

  /// First element of a head of sample b.
  __device__ Count head_of(const Rows& rows, int b, int head) const { return b * rows.sample + head * head_size; }
  /// First row of a head in lse, and in delta, which is packed.
  __device__ Count lse_offset(int b, int h) const { return (Count{b} * heads + h) * lse_rows; }
  __device__ Count delta_offset(int b, int h) const { return (Count{b} * heads + h) * queries; }
};

/// Which documents samples are packed with. Not part of Sizes, so that kernels without documents are what they were.
struct Documents {
  const std::int32_t* first_keys;  // [batch, tokens], see AttentionShape; null: a sample is one document

  /// How many keys, from the first on, are of documents before that of query i; at most visible_keys. They ascend with i.
  __device__ int hidden_keys(const Sizes& s, int b, int i) const {
    if (first_keys == nullptr || i >= s.queries) return 0;
    return max(0, min(first_keys[Count{b} * s.tokens + s.query_position + i] - s.key_position, s.visible_keys(i)));
  }
  /// Behind the last query that sees any of the keys before `end`, as far as documents go.
  __device__ int end_of_queries(const Sizes& s, int b, int end) const {
    if (first_keys == nullptr) return s.queries;
    int low = 0, high = s.queries;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (hidden_keys(s, b, middle) >= end) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

/// What all kernels read.
template <class Element>
struct Operands {
  const Element* q;
  const Element* k;
  const Element* v;
};

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
    first_ = static_cast<std::uint64_t>(dropout.slots[b] * heads + dropout.first_head + h) * tokens_ * tokens_ +
             static_cast<std::uint64_t>(s.query_position) * tokens_ + static_cast<std::uint64_t>(s.key_position);
  }

  __device__ bool active() const { return threshold_ != 0; }
  /// Of rows of the problem.
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

/// The rungs by type. `out` [forward], and dq, dk and dv, are of the element type, or fp32 in a block; delta holds batch * heads
/// * queries floats. Else as in flash_attention.hpp.
void forward_fp32(CUstream_st* stream, const Sizes& s, float* out, float* lse, const Operands<float>& operands,
                  const FlashDropout& dropout, const Documents& documents);
void backward_fp32(CUstream_st* stream, const Sizes& s, float* dq, float* dk, float* dv, const float* dout, const float* out,
                   const float* lse, const Operands<float>& operands, float* delta, const FlashDropout& dropout,
                   const Documents& documents);
void forward_narrow(CUstream_st* stream, DType dtype, const Sizes& s, void* out, float* lse, const Operands<void>& operands,
                    const FlashDropout& dropout, const Documents& documents);
void backward_narrow(CUstream_st* stream, DType dtype, const Sizes& s, void* dq, void* dk, void* dv, const void* dout,
                     const void* out, const float* lse, const Operands<void>& operands, float* delta, const FlashDropout& dropout,
                     const Documents& documents);

template <class Element>
Operands<Element> typed(const Operands<void>& operands) {
  return {static_cast<const Element*>(operands.q), static_cast<const Element*>(operands.k),
          static_cast<const Element*>(operands.v)};
}

}  // namespace cohort::ops::cuda::flash
