// What all bandwidth-bound kernels share: accesses of 16 bytes at a time, conversion to and from fp32, and dispatch by type.
//
// A Pack is N neighbouring elements as they lie in memory. Kernels load several packs before they use the first, since a
// multiprocessor must keep tens of kilobytes on their way to draw the memory's full bandwidth (Little's law), and widen them to
// fp32 only where they compute, since a pack of 16-bit elements takes half the registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort::ops::cuda {

/// Elements of a 16-byte access.
template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

template <int kBytes>
struct Word;
template <>
struct Word<16> {
  using Type = uint4;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};

template <class T, int N>
struct Pack {
  using Raw = typename Word<static_cast<int>(sizeof(T)) * N>::Type;
  Raw raw;
};

/// `from` and `to` are aligned to the pack's size.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> load(const T* from) {
  return {*reinterpret_cast<const typename Pack<T, N>::Raw*>(from)};
}
template <class T, int N>
__device__ __forceinline__ void store(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<typename Pack<T, N>::Raw*>(to) = pack.raw;
}
/// N zeros: +0 is all bits zero in every type here.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> zeros() {
  return {typename Pack<T, N>::Raw{}};
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }

/// Rounds to nearest even.
template <class T>
__device__ __forceinline__ T from_float(float value) {
  return static_cast<T>(value);
}

// Two conversions in one instruction.
template <class T>
__device__ __forceinline__ auto pair_from_floats(float low, float high);
template <>
__device__ __forceinline__ auto pair_from_floats<__nv_bfloat16>(float low, float high) {
  return __floats2bfloat162_rn(low, high);
}
template <>
__device__ __forceinline__ auto pair_from_floats<__half>(float low, float high) {
  return __floats2half2_rn(low, high);
}

template <class T, int N>
__device__ __forceinline__ void widen(float (&values)[N], const Pack<T, N>& pack) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
    // A bf16 is the upper half of an fp32: one instruction each, where extracting 16 bits first would take two.
    unsigned words[N / 2];
    memcpy(words, &pack.raw, sizeof words);  // registers to registers
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      values[i] = __uint_as_float(words[i / 2] << 16);
      values[i + 1] = __uint_as_float(words[i / 2] & 0xffff0000u);
    }
  } else {
    T elements[N];
    memcpy(elements, &pack.raw, sizeof elements);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = to_float(elements[i]);
  }
}

/// Makes the compiler believe that the pack has changed: it must widen it anew, where it would otherwise carry the fp32 values
/// that it has from an earlier use, in twice the registers.
template <class T, int N>
__device__ __forceinline__ void widen_anew(Pack<T, N>& pack) {
  if constexpr (sizeof(pack.raw) == 16 && sizeof(T) == 2) {
    asm volatile("" : "+r"(pack.raw.x), "+r"(pack.raw.y), "+r"(pack.raw.z), "+r"(pack.raw.w));
  }
}

template <class T, int N>
__device__ __forceinline__ Pack<T, N> narrow(const float (&values)[N]) {
  T elements[N];
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const auto pair = pair_from_floats<T>(values[i], values[i + 1]);
      elements[i] = pair.x;
      elements[i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) elements[i] = from_float<T>(values[i]);
  }
  Pack<T, N> pack;
  memcpy(&pack.raw, elements, sizeof elements);
  return pack;
}

/// N floats, 16 bytes at a time if N is a multiple of 4; `from` and `to` are then aligned to 16 bytes.
template <int N>
__device__ __forceinline__ void load_floats(float (&values)[N], const float* from) {
  constexpr int kVec = N % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int i = 0; i < N; i += kVec) {
    float some[kVec];
    widen(some, load<float, kVec>(from + i));
#pragma unroll
    for (int j = 0; j < kVec; ++j) values[i + j] = some[j];
  }
}
template <int N>
__device__ __forceinline__ void store_floats(float* to, const float (&values)[N]) {
  constexpr int kVec = N % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int i = 0; i < N; i += kVec) {
    float some[kVec];
#pragma unroll
    for (int j = 0; j < kVec; ++j) some[j] = values[i + j];
    store(to + i, narrow<float>(some));
  }
}

template <class T>
struct TypeTag {
  using Type = T;
};

/// body(TypeTag<float>), body(TypeTag<__nv_bfloat16>) or body(TypeTag<__half>): the type that `dtype` names, one of these three.
template <class Body>
void for_dtype(DType dtype, const Body& body) {
  if (dtype == DType::f32) body(TypeTag<float>{});
  if (dtype == DType::bf16) body(TypeTag<__nv_bfloat16>{});
  if (dtype == DType::f16) body(TypeTag<__half>{});
}

/// Whether rows of `columns` elements of T that begin at these addresses can be read 16 bytes at a time.
template <class T, class... Pointers>
bool is_wide(Count columns, const Pointers*... pointers) {
  return columns % kWide<T> == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

inline Count divide_up(Count a, Count b) { return (a + b - 1) / b; }

/// Blocks of a kernel that the whole device runs at one time: the right grid for kernels whose blocks walk over many rows, since
/// each block then does an equal share in a single wave.
template <class Kernel>
Count resident_blocks(Kernel* kernel, int threads) {
  int device = 0;
  int multiprocessors = 1;
  int blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  return Count{multiprocessors} * (blocks > 0 ? blocks : 1);
}

}  // namespace cohort::ops::cuda
