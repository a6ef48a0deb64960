// exp for the loops of kernels. On hosts: branch-free, so that the compiler turns a loop over it into vector code (the C
// library's expf stays scalar without -ffast-math); relative error below 2 ulp in [-87.3, 88.37], arguments outside are clamped
// to that range. On GPUs: the hardware's, whose relative error grows to some 100 ulp at the ends of that range.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define COHORT_FAST_MATH __host__ __device__ inline
#else
#define COHORT_FAST_MATH inline
#endif
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define COHORT_GPU_MATH 1
#else
#define COHORT_GPU_MATH 0
#endif

namespace cohort::ops {

COHORT_FAST_MATH float fast_exp(float x) {
#if COHORT_GPU_MATH
  return __expf(x);
#else
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // ln 2 in two parts: n * kLn2High is exact for |n| < 2^10
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.37f ? 88.37f : x;  // beyond, n would round to 128 and 2^n would not be a float
  const float shifted = x * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // in [-ln2/2, ln2/2]
  // Taylor polynomial of degree 7; the first left-out term is below 2^-28 there.
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;  // 2^n; kRound's own bits are shifted out
  return p * std::bit_cast<float>(exponent);
#endif
}

/// 1 / (1 + exp(-x)).
COHORT_FAST_MATH float sigmoid(float x) {
#if COHORT_GPU_MATH
  return __fdividef(1.0f, 1.0f + __expf(-x));
#else
  return 1.0f / (1.0f + fast_exp(-x));
#endif
}

}  // namespace cohort::ops
