#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/pointwise/pointwise.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kThreads = 256;
// Packs of one thread that are on their way at one time.
constexpr int kAhead = 4;

unsigned blocks_for(Count packs) { return static_cast<unsigned>(divide_up(packs, kThreads * kAhead)); }

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads) fill_elements(T* x, float value, Count elements) {
  float values[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) values[i] = value;
  const Pack<T, kVec> pack = narrow<T>(values);
  const Count first = Count{blockIdx.x} * kThreads * kAhead + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const Count at = (first + k * kThreads) * kVec;
    if (at + kVec <= elements) {
      store(x + at, pack);
    } else {
      for (Count i = at; i < elements; ++i) x[i] = from_float<T>(value);
    }
  }
}

__global__ void __launch_bounds__(kThreads) copy_words(uint4* __restrict__ out, const uint4* __restrict__ x, Count words) {
  const Count first = Count{blockIdx.x} * kThreads * kAhead + threadIdx.x;
  uint4 values[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    if (first + k * kThreads < words) values[k] = x[first + k * kThreads];
  }
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    if (first + k * kThreads < words) out[first + k * kThreads] = values[k];
  }
}

}  // namespace

void fill(CUstream_st* stream, DType dtype, void* x, float value, Count elements) {
  if (elements == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const data = static_cast<T*>(x);
    if (is_wide<T>(0, x)) {
      const unsigned blocks = blocks_for(divide_up(elements, kWide<T>));
      fill_elements<T, kWide<T>><<<blocks, kThreads, 0, stream>>>(data, value, elements);
    } else {
      fill_elements<T, 1><<<blocks_for(elements), kThreads, 0, stream>>>(data, value, elements);
    }
  });
}

void copy(CUstream_st* stream, void* out, const void* x, Bytes bytes) {
  const Count words = bytes / Bytes{sizeof(uint4)};
  if (words == 0) return;
  copy_words<<<blocks_for(words), kThreads, 0, stream>>>(static_cast<uint4*>(out), static_cast<const uint4*>(x), words);
}

}  // namespace cohort::ops::cuda
