// Attention in double precision by three plain kernels, one row at a time: what the flash attention kernels are compared with.
// The formulas are those of ops/reference/attention.hpp. Only for tests.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "base/random.hpp"
#include "ops/attention_shape.hpp"

namespace cohort::ops::cuda::reference {

constexpr int kThreads = 128;

struct Problem {
  Count tokens, heads, kv_heads, head_size;
  double probability;  // of dropout
  std::uint64_t seed;
  std::uint32_t step, layer;
  const Count* slots;

  __device__ Count packed_width() const { return (heads + 2 * kv_heads) * head_size; }
  __device__ Count width() const { return heads * head_size; }
  __device__ double scale() const { return 1.0 / sqrt(static_cast<double>(head_size)); }
  /// First element of a head's row in qkv and in out.
  __device__ Count packed(Count b, Count token, Count column) const {
    return (b * tokens + token) * packed_width() + column * head_size;
  }
  __device__ Count row(Count b, Count token, Count h) const { return (b * tokens + token) * width() + h * head_size; }
  __device__ Count key_column(Count h) const { return heads + h / (heads / kv_heads); }
  __device__ Count value_column(Count h) const { return heads + kv_heads + h / (heads / kv_heads); }
  /// What dropout multiplies the weight of (query, key) with: the rule of the CPU, with its comparison of doubles.
  __device__ double factor(Count b, Count h, Count query, Count key) const {
    if (probability == 0.0) return 1.0;
    const auto index = static_cast<std::uint64_t>(slots[b] * heads * tokens * tokens + (h * tokens + query) * tokens + key);
    const CounterRandom random(seed, RandomPurpose::dropout, step, layer);
    return random.uniform(index) >= probability ? 1.0 / (1.0 - probability) : 0.0;
  }
};

template <class Element>
__device__ double dot(const Element* x, const Element* y, Count n) {
  double sum = 0.0;
  for (Count i = 0; i < n; ++i) sum += static_cast<double>(static_cast<float>(x[i])) * static_cast<float>(y[i]);
  return sum;
}

/// The sum, or the maximum, of x over the block; the same for all threads.
template <bool kMaximum>
__device__ double reduce(double x) {
  __shared__ double values[kThreads];
  __syncthreads();  // the previous result has been read
  values[threadIdx.x] = x;
  __syncthreads();
  double result = values[0];
  for (int i = 1; i < kThreads; ++i) result = kMaximum ? fmax(result, values[i]) : result + values[i];
  return result;
}

/// One block for a row (b, h, query); shared memory for T doubles. delta = sum of dout * out.
template <class Element>
__global__ void forward(Problem s, double* out, double* lse, double* delta, const Element* qkv, const Element* dout) {
  extern __shared__ double weights[];
  const Count query = blockIdx.x % s.tokens;
  const Count h = blockIdx.x / s.tokens % s.heads;
  const Count b = blockIdx.x / s.tokens / s.heads;
  const Element* q = qkv + s.packed(b, query, h);
  double top = -INFINITY;
  for (Count j = threadIdx.x; j <= query; j += kThreads) {
    weights[j] = dot(q, qkv + s.packed(b, j, s.key_column(h)), s.head_size) * s.scale();
    top = fmax(top, weights[j]);
  }
  top = reduce<true>(top);
  double sum = 0.0;
  for (Count j = threadIdx.x; j <= query; j += kThreads) {
    weights[j] = exp(weights[j] - top);
    sum += weights[j];
  }
  sum = reduce<false>(sum);
  for (Count j = threadIdx.x; j <= query; j += kThreads) weights[j] *= s.factor(b, h, query, j) / sum;
  __syncthreads();
  double row_delta = 0.0;
  for (Count d = threadIdx.x; d < s.head_size; d += kThreads) {
    double value = 0.0;
    for (Count j = 0; j <= query; ++j) {
      value += weights[j] * static_cast<float>(qkv[s.packed(b, j, s.value_column(h)) + d]);
    }
    out[s.row(b, query, h) + d] = value;
    row_delta += value * static_cast<float>(dout[s.row(b, query, h) + d]);
  }
  row_delta = reduce<false>(row_delta);
  if (threadIdx.x == 0) {
    lse[(b * s.heads + h) * s.tokens + query] = top + log(sum);
    delta[(b * s.heads + h) * s.tokens + query] = row_delta;
  }
}

/// p and ds of one (query, key).
struct Gradient {
  double p, ds;
};
template <class Element>
__device__ Gradient gradient(const Problem& s, const double* lse, const double* delta, const Element* qkv, const Element* dout,
                             Count b, Count h, Count query, Count key) {
  const Count statistic = (b * s.heads + h) * s.tokens + query;
  const double score = dot(qkv + s.packed(b, query, h), qkv + s.packed(b, key, s.key_column(h)), s.head_size) * s.scale();
  const double weight = exp(score - lse[statistic]);
  const double dp = dot(dout + s.row(b, query, h), qkv + s.packed(b, key, s.value_column(h)), s.head_size);
  const double factor = s.factor(b, h, query, key);
  return {weight * factor, weight * (dp * factor - delta[statistic])};
}

/// One block for a row (b, h, query) of dq; shared memory for T doubles.
template <class Element>
__global__ void backward_queries(Problem s, double* dqkv, const double* lse, const double* delta, const Element* qkv,
                                 const Element* dout) {
  extern __shared__ double weights[];
  const Count query = blockIdx.x % s.tokens;
  const Count h = blockIdx.x / s.tokens % s.heads;
  const Count b = blockIdx.x / s.tokens / s.heads;
  for (Count j = threadIdx.x; j <= query; j += kThreads) weights[j] = gradient(s, lse, delta, qkv, dout, b, h, query, j).ds;
  __syncthreads();
  for (Count d = threadIdx.x; d < s.head_size; d += kThreads) {
    double value = 0.0;
    for (Count j = 0; j <= query; ++j) value += weights[j] * static_cast<float>(qkv[s.packed(b, j, s.key_column(h)) + d]);
    dqkv[s.packed(b, query, h) + d] = value * s.scale();
  }
}

/// One block for a row (b, kv head, key) of dk and of dv, summed over the query heads of the group; shared memory for 2 T
/// doubles.
template <class Element>
__global__ void backward_keys(Problem s, double* dqkv, const double* lse, const double* delta, const Element* qkv,
                              const Element* dout) {
  extern __shared__ double weights[];
  const Count key = blockIdx.x % s.tokens;
  const Count kv = blockIdx.x / s.tokens % s.kv_heads;
  const Count b = blockIdx.x / s.tokens / s.kv_heads;
  const Count group = s.heads / s.kv_heads;
  double dk[2] = {0.0, 0.0};  // up to 256 columns for 128 threads
  double dv[2] = {0.0, 0.0};
  for (Count h = kv * group; h < (kv + 1) * group; ++h) {
    __syncthreads();
    for (Count i = key + threadIdx.x; i < s.tokens; i += kThreads) {
      const Gradient g = gradient(s, lse, delta, qkv, dout, b, h, i, key);
      weights[i] = g.p;
      weights[s.tokens + i] = g.ds;
    }
    __syncthreads();
    for (Count d = threadIdx.x, c = 0; d < s.head_size; d += kThreads, ++c) {
      for (Count i = key; i < s.tokens; ++i) {
        dv[c] += weights[i] * static_cast<float>(dout[s.row(b, i, h) + d]);
        dk[c] += weights[s.tokens + i] * static_cast<float>(qkv[s.packed(b, i, h) + d]);
      }
    }
  }
  for (Count d = threadIdx.x, c = 0; d < s.head_size; d += kThreads, ++c) {
    dqkv[s.packed(b, key, s.heads + kv) + d] = dk[c] * s.scale();
    dqkv[s.packed(b, key, s.heads + s.kv_heads + kv) + d] = dv[c];
  }
}

/// Random values in [-amplitude, amplitude), rounded to Element; columns below `wide_columns` of rows of `width` get twice the
/// range.
template <class Element>
__global__ void fill(Element* to, Count elements, Count width, Count wide_columns, double amplitude, std::uint32_t stream) {
  const CounterRandom random(2026, RandomPurpose::test, 0, stream);
  for (Count i = blockIdx.x * Count{blockDim.x} + threadIdx.x; i < elements; i += Count{gridDim.x} * blockDim.x) {
    const double range = i % width < wide_columns ? 2.0 * amplitude : amplitude;
    to[i] = static_cast<Element>(static_cast<float>((2.0 * random.uniform(static_cast<std::uint64_t>(i)) - 1.0) * range));
  }
}

/// Adds to sums[0] the squares of x - reference, to sums[1] those of the reference, over columns [begin, end) of rows of `width`.
template <class Element>
__global__ void compare(double* sums, const Element* x, const double* reference, Count rows, Count width, Count begin,
                        Count end) {
  double difference = 0.0;
  double size = 0.0;
  const Count columns = end - begin;
  for (Count i = blockIdx.x * Count{blockDim.x} + threadIdx.x; i < rows * columns; i += Count{gridDim.x} * blockDim.x) {
    const Count at = i / columns * width + begin + i % columns;
    const double d = static_cast<double>(static_cast<float>(x[at])) - reference[at];
    difference += d * d;
    size += reference[at] * reference[at];
  }
  atomicAdd(sums, difference);
  atomicAdd(sums + 1, size);
}

}  // namespace cohort::ops::cuda::reference
