// exp and 1/x in one or two instructions of the special function unit. Relative errors of about 2^-22: far below the rounding of
// a 16-bit result, and a few units in the last place of an fp32 one. Results below 2^-126 become 0.
#pragma once

#include <cuda_runtime.h>

namespace cohort::ops::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

/// 2^x.
__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// 1 / (1 + 2^x), the sigmoid of -x ln 2; for large x the power overflows to infinity, and its reciprocal is the right 0.
__device__ __forceinline__ float falling_sigmoid2(float x) { return fast_reciprocal(1.0f + fast_exp2(x)); }

/// 1 / (1 + exp(-x)).
__device__ __forceinline__ float sigmoid(float x) { return falling_sigmoid2(-kLog2e * x); }

}  // namespace cohort::ops::cuda
