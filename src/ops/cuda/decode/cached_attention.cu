#include <cmath>

#include "ops/cuda/common/fast_math.cuh"
#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/decode/decode_kernels.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kThreads = static_cast<int>(kMostPartKeys);  // of a block: one for each key of a part
constexpr int kWarps = kThreads / 32;
constexpr int kLanesOfKey = 8;  // that share the product of a query with a key
constexpr int kKeysAtOnce = kThreads / kLanesOfKey;
constexpr int kAhead = 4;  // keys, or values, that a thread has on their way

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

// Scores of `seen` keys with one query, scaled to powers of 2, to `scores`.
template <class T, int kVec>
__device__ __forceinline__ void score_keys(float* scores, const T* q, const T* keys, int head_size, int seen, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % kLanesOfKey, packs = head_size / kVec;
  for (int first = static_cast<int>(threadIdx.x) / kLanesOfKey; first < kThreads; first += kAhead * kKeysAtOnce) {
    float sums[kAhead] = {};
    for (int pack = lane; pack < packs; pack += kLanesOfKey) {
      Pack<T, kVec> held[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int key = min(first + a * kKeysAtOnce, seen - 1);
        held[a] = load<T, kVec>(keys + key * head_size + pack * kVec);
      }
      float query[kVec];
      widen(query, load<T, kVec>(q + pack * kVec));
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        float key[kVec];
        widen(key, held[a]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) sums[a] = fmaf(query[i], key[i], sums[a]);
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
#pragma unroll
      for (int offset = kLanesOfKey / 2; offset > 0; offset /= 2) sums[a] += __shfl_xor_sync(kAllLanes, sums[a], offset);
      if (lane == 0) scores[first + a * kKeysAtOnce] = sums[a] * scale;
    }
  }
}

// Makes of scores weights; returns the largest score, and the sum of the weights.
__device__ __forceinline__ float2 make_weights(float* scores, int seen) {
  __shared__ float most_of[kWarps], sum_of[kWarps];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const float score = thread < seen ? scores[thread] : -INFINITY;
  const float most_of_warp = warp_max(score);
  if (thread % 32 == 0) most_of[warp] = most_of_warp;
  __syncthreads();
  float most = most_of[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) most = fmaxf(most, most_of[w]);
  const float weight = thread < seen ? fast_exp2(score - most) : 0.0f;
  scores[thread] = weight;
  const float sum_of_warp = warp_sum(weight);
  if (thread % 32 == 0) sum_of[warp] = sum_of_warp;
  __syncthreads();
  float sum = sum_of[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += sum_of[w];
  return {most, sum};
}

// store(d, sum of weights[key] values[key][d]) for each d. Threads that differ in the key share the sums of a pack.
template <class T, int kVec, class Store>
__device__ __forceinline__ void weigh_values(const float* weights, const T* values, int head_size, int seen, const Store& store) {
  __shared__ float shared[kThreads * kVec];
  const int packs = head_size / kVec, packs_at_once = min(packs, kThreads), groups = kThreads / packs_at_once;
  const int place = static_cast<int>(threadIdx.x) % packs_at_once, group = static_cast<int>(threadIdx.x) / packs_at_once;
  for (int first = 0; first < packs; first += packs_at_once) {
    const int pack = first + place;
    const bool at_work = group < groups && pack < packs;
    float sums[kVec] = {};
    if (at_work) {
#pragma unroll kAhead
      for (int key = group; key < seen; key += groups) {
        float value[kVec];
        widen(value, load<T, kVec>(values + key * head_size + pack * kVec));
#pragma unroll
        for (int i = 0; i < kVec; ++i) sums[i] = fmaf(weights[key], value[i], sums[i]);
      }
#pragma unroll
      for (int i = 0; i < kVec; ++i) shared[(group * packs_at_once + place) * kVec + i] = sums[i];
    }
    __syncthreads();
    const int columns = min(packs_at_once, packs - first) * kVec;
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += kThreads) {
      float sum = 0.0f;
      for (int g = 0; g < groups; ++g) sum += shared[g * packs_at_once * kVec + c];
      store(first * kVec + c, sum);
    }
    __syncthreads();
  }
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads) attend_to_part(CachedAttentionArrays p, float scale) {
  __shared__ float scores[kThreads];
  const Count entry = blockIdx.x;
  const Count part = entry % p.parts, head = entry / p.parts % p.heads, row = entry / p.parts / p.heads;
  const Count first = part * p.part_keys;
  const auto seen = static_cast<int>(min(p.part_keys, Count{p.positions[row]} + 1 - first));
  if (seen <= 0) return;  // nobody will ask for this part
  const Count begin = ((p.slots[row] * Count{p.kv_heads} + head / (p.heads / p.kv_heads)) * p.tokens + first) * p.head_size;
  score_keys<T, kVec>(scores, static_cast<const T*>(p.qkv) + row * p.packed_width + head * p.head_size,
                      static_cast<const T*>(p.keys) + begin, p.head_size, seen, scale);
  __syncthreads();
  const float2 most_and_sum = make_weights(scores, seen);
  float* const to = p.part_out + entry * p.head_size;
  weigh_values<T, kVec>(scores, static_cast<const T*>(p.values) + begin, p.head_size, seen,
                        [=](int d, float sum) { to[d] = sum; });
  if (threadIdx.x != 0) return;
  p.part_most[entry] = most_and_sum.x;
  p.part_sum[entry] = most_and_sum.y;
}

template <class T>
__global__ void __launch_bounds__(kThreads) merge_parts(CachedAttentionArrays p) {
  const Count row_and_head = blockIdx.x, entry = row_and_head * p.parts;
  const auto parts = static_cast<int>(p.positions[row_and_head / p.heads] / p.part_keys + 1);
  float most = p.part_most[entry];
  for (int part = 1; part < parts; ++part) most = fmaxf(most, p.part_most[entry + part]);
  float sum = 0.0f;
  for (int part = 0; part < parts; ++part) sum += p.part_sum[entry + part] * fast_exp2(p.part_most[entry + part] - most);
  for (int d = static_cast<int>(threadIdx.x); d < p.head_size; d += kThreads) {
    float total = 0.0f;
    for (int part = 0; part < parts; ++part)
      total += p.part_out[(entry + part) * p.head_size + d] * fast_exp2(p.part_most[entry + part] - most);
    static_cast<T*>(p.out)[row_and_head * p.head_size + d] = from_float<T>(total / sum);
  }
}

}  // namespace

void cached_attention(CUstream_st* stream, DType dtype, const CachedAttentionArrays& p) {
  if (p.rows == 0) return;
  const float scale = kLog2e / std::sqrt(static_cast<float>(p.head_size));
  const auto heads = static_cast<unsigned>(p.rows * p.heads);
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = is_wide<T>(p.head_size, p.qkv, p.keys, p.values) && p.packed_width % kWide<T> == 0;
    const auto kernel = wide ? attend_to_part<T, kWide<T>> : attend_to_part<T, 1>;
    kernel<<<heads* static_cast<unsigned>(p.parts), kThreads, 0, stream>>>(p, scale);
    merge_parts<T><<<heads, kThreads, 0, stream>>>(p);
  });
}

}  // namespace cohort::ops::cuda
