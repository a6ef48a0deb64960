#include "ops/cuda/attention/attention_merge.hpp"

#include <cmath>

#include "ops/cuda/common/pack.cuh"

namespace cohort::ops::cuda {
namespace {

constexpr int kThreads = 256;

struct Sizes {
  int heads, head_size;
  int queries, first;  // rows of a sample that are merged, from `first`
  Count rows;          // of a sample
};

/// A block merges one row: first the weights of its heads, then its elements. No other block touches the row's lse.
template <int kVec>
__global__ void __launch_bounds__(kThreads)
    attention_merge_kernel(float* out, float* lse, const float* part_out, const float* part_lse, Sizes s) {
  extern __shared__ float weights[];  // what is kept of each head, then what is taken of its part
  float* const keep = weights;
  float* const take = weights + s.heads;
  const int b = static_cast<int>(blockIdx.x) / s.queries;
  const Count row = s.first + static_cast<int>(blockIdx.x) % s.queries;
  for (int h = static_cast<int>(threadIdx.x); h < s.heads; h += kThreads) {
    const Count index = (Count{b} * s.heads + h) * s.rows + row;
    const float a = lse[index], other = part_lse[index];
    if (a == -INFINITY && other == -INFINITY) {
      keep[h] = 1.0f;
      take[h] = 0.0f;
      continue;
    }
    const float largest = fmaxf(a, other);  // of a number and a NaN, the number: the other's weight is then NaN
    // With the larger of the two taken off, exp cannot overflow; the difference is -infinity where one side is nothing.
    const float weight = expf(a - largest), part_weight = expf(other - largest);
    const float sum = weight + part_weight;
    keep[h] = weight / sum;
    take[h] = part_weight / sum;
    lse[index] = largest + logf(sum);
  }
  __syncthreads();
  const int width = s.heads * s.head_size;
  const Count first = (b * s.rows + row) * width;
  for (int c = static_cast<int>(threadIdx.x) * kVec; c < width; c += kThreads * kVec) {
    const int h = c / s.head_size;
    float values[kVec], part[kVec];
    load_floats(values, out + first + c);
    load_floats(part, part_out + first + c);
#pragma unroll
    for (int i = 0; i < kVec; ++i) values[i] = fmaf(keep[h], values[i], take[h] * part[i]);
    store_floats(out + first + c, values);
  }
}

}  // namespace

void attention_merge(CUstream_st* stream, const AttentionShape& shape, const TokenRun& queries, Count rows, float* out,
                     float* lse, const float* part_out, const float* part_lse) {
  const Sizes s{static_cast<int>(shape.heads), static_cast<int>(shape.head_size), static_cast<int>(queries.count),
                static_cast<int>(queries.row), rows};
  const auto kernel = is_wide<float>(shape.head_size, out, part_out) ? attention_merge_kernel<4> : attention_merge_kernel<1>;
  const std::size_t shared = 2 * static_cast<std::size_t>(shape.heads) * sizeof(float);
  kernel<<<static_cast<unsigned>(shape.batch * queries.count), kThreads, shared, stream>>>(out, lse, part_out, part_lse, s);
}

}  // namespace cohort::ops::cuda
