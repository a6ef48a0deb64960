// Sums over the threads of a warp and a block, in one fixed order.
#pragma once

#include <cuda_runtime.h>

#include "base/units.hpp"

namespace cohort::ops::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The sum over the warp, in every lane: the butterfly adds the same pairs in each.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

/// Replaces each of N values by its sum over the block, in every thread. A kernel that calls it again and again takes turns
/// between two arrays `shared`: whoever writes one again has passed the barrier of the call between, which no thread reaches
/// before it has read the first. So one barrier a call is enough.
template <int N>
__device__ __forceinline__ void block_sums(float (&values)[N], float (&shared)[32][N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = warp_sum(values[i]);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return;
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) shared[threadIdx.x / 32][i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = 0.0f;
#pragma unroll 4
  for (int warp = 0; warp < warps; ++warp) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += shared[warp][i];
  }
}

inline constexpr int kTotalThreads = 1024;

/// *total += sum of values, in double precision. One block of kTotalThreads.
template <class T>
__global__ void __launch_bounds__(kTotalThreads) add_total(double* total, const T* values, Count count) {
  __shared__ double shared[32];
  double sum = 0.0;
#pragma unroll 8
  for (Count i = threadIdx.x; i < count; i += kTotalThreads) sum += static_cast<double>(values[i]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = warp_sum(shared[threadIdx.x]);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace cohort::ops::cuda
