#include <algorithm>

#include "ops/cuda/common/fast_math.cuh"
#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/loss/cross_entropy.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kMostThreads = 1024;
// Packs of one thread that are on their way at one time.
constexpr int kAhead = 4;
constexpr double kLn2 = 0.6931471805599453;

struct Sizes {
  int vocabulary;
  Count stride;
  int kept;  // packs of a row that fit in shared memory

  __device__ int packs(int vec) const { return (vocabulary + vec - 1) / vec; }
};

// The softmax's denominator so far: sum over the logits x seen of exp(x - top), where top is the largest. It grows as larger
// logits come (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"). top is taken off before the factor
// log2(e), so that the largest term is exactly 1 however large the logits are.
struct Denominator {
  float top;
  float sum;

  __device__ void join(const Denominator& other) {
    const float higher = fmaxf(top, other.top);
    sum = sum * fast_exp2((top - higher) * kLog2e) + other.sum * fast_exp2((other.top - higher) * kLog2e);
    top = higher;
  }
};

// Of no logits. Below every logit, but finite, so that no difference is infinity - infinity.
constexpr float kLowestTop = -1e38f;

template <int kVec>
__device__ __forceinline__ void add(Denominator& denominator, const float (&logits)[kVec]) {
  float most = logits[0];
#pragma unroll
  for (int i = 1; i < kVec; ++i) most = fmaxf(most, logits[i]);
  const float top = fmaxf(denominator.top, most);
  denominator.sum *= fast_exp2((denominator.top - top) * kLog2e);
#pragma unroll
  for (int i = 0; i < kVec; ++i) denominator.sum += fast_exp2((logits[i] - top) * kLog2e);
  denominator.top = top;
}

// The logits of columns `column` onward; those of padding become -infinity, whose exponential is 0.
template <class T, int kVec>
__device__ __forceinline__ void read_logits(float (&logits)[kVec], const Pack<T, kVec>& pack, int column, int vocabulary) {
  widen(logits, pack);
  if (column + kVec <= vocabulary) return;
#pragma unroll
  for (int i = 0; i < kVec; ++i) logits[i] = column + i < vocabulary ? logits[i] : -INFINITY;
}

// The denominator of the whole row, from those of all threads; the same in every thread.
__device__ Denominator whole_row(Denominator mine) {
  __shared__ Denominator shared[32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Denominator other;
    other.top = __shfl_xor_sync(kAllLanes, mine.top, offset);
    other.sum = __shfl_xor_sync(kAllLanes, mine.sum, offset);
    mine.join(other);
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  Denominator all = shared[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) all.join(shared[warp]);
  return all;
}

// Overwrites the row with the gradient, from what was kept of it and, beyond that, from the row itself.
template <class T, int kVec>
__device__ void write_gradient(T* row, const Pack<T, kVec>* kept, const Sizes& s, const Denominator& all, int target,
                               float target_logit, float scale) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int packs = s.packs(kVec);
  const float factor = scale / all.sum;
  int p = thread;
#pragma unroll 2
  for (; p < packs; p += threads) {
    float values[kVec];
    read_logits(values, p < s.kept ? kept[p] : load<T, kVec>(row + p * kVec), p * kVec, s.vocabulary);
#pragma unroll
    for (int i = 0; i < kVec; ++i) values[i] = fast_exp2((values[i] - all.top) * kLog2e) * factor;
    store(row + p * kVec, narrow<T>(values));
  }
  for (; p < s.stride / kVec; p += threads) store(row + p * kVec, zeros<T, kVec>());
  // The thread that wrote the target's pack takes the one off, rather than all of them asking for it at every element.
  if (target / kVec % threads == thread) {
    row[target] = from_float<T>(fast_exp2((target_logit - all.top) * kLog2e) * factor - scale);
  }
}

// A block classifies one row: it reads the logits once for the denominator and keeps what fits of them in shared memory; for the
// gradient it takes them from there. Two blocks share a multiprocessor if they fit: while one waits for memory the other
// computes.
template <class T, int kVec, bool kGradient>
__global__ void __launch_bounds__(kMostThreads, 1)
    classify(T* logits, float* row_losses, const std::int32_t* __restrict__ targets, Sizes s, float scale) {
  extern __shared__ uint4 kept_words[];
  auto* const kept = reinterpret_cast<Pack<T, kVec>*>(kept_words);
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  T* const row = logits + blockIdx.x * s.stride;
  const int target = targets[blockIdx.x];
  const int packs = s.packs(kVec);
  if (target < 0) {
    if (thread == 0) row_losses[blockIdx.x] = 0.0f;
    if constexpr (kGradient) {
      for (int p = thread; p < s.stride / kVec; p += threads) store(row + p * kVec, zeros<T, kVec>());
    }
    return;
  }

  const float target_logit = to_float(row[target]);  // before the gradient overwrites it
  Denominator mine{kLowestTop, 0.0f};
  for (int first = thread; first < packs; first += kAhead * threads) {
    Pack<T, kVec> ahead[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int p = first + k * threads;
      if (p < packs) ahead[k] = load<T, kVec>(row + p * kVec);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int p = first + k * threads;
      if (p >= packs) continue;
      if (kGradient && p < s.kept) kept[p] = ahead[k];
      float values[kVec];
      read_logits(values, ahead[k], p * kVec, s.vocabulary);
      add(mine, values);
    }
  }
  const Denominator all = whole_row(mine);
  if (thread == 0) {
    const double log_sum = static_cast<double>(log2f(all.sum)) * kLn2 + static_cast<double>(all.top);
    row_losses[blockIdx.x] = static_cast<float>(log_sum - static_cast<double>(target_logit));
  }
  if constexpr (kGradient) write_gradient(row, kept, s, all, target, target_logit, scale);
}

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

// The shared memory that a block may keep of a row: all of it if it fits.
int kept_bytes(int row_bytes) {
  const int own = static_cast<int>(sizeof(Denominator)) * 32;  // what whole_row needs
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - own;
  return std::min(row_bytes, most / 16 * 16);
}

bool two_blocks_fit(int bytes) {
  const int own = static_cast<int>(sizeof(Denominator)) * 32 + device_attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  return 2 * (bytes + own) <= device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
}

template <class T, int kVec, bool kGradient>
void launch(CUstream_st* stream, float* row_losses, T* logits, const std::int32_t* targets, Count rows, Count vocabulary,
            Count stride, float scale) {
  constexpr int kPackBytes = kVec * static_cast<int>(sizeof(T));
  const auto packs = static_cast<int>(divide_up(vocabulary, kVec));
  // The other path is for rows that are too oddly placed to be fast in any case.
  const bool keeps = kGradient && kPackBytes == 16;
  const int bytes = keeps ? kept_bytes(packs * kPackBytes) : 0;
  // Enough packs for each thread to have several on their way; a block that is alone on its multiprocessor is larger.
  const int most_threads = two_blocks_fit(bytes) ? kMostThreads / 2 : kMostThreads;
  const int threads = std::clamp(static_cast<int>(32 * divide_up(packs, 32 * kAhead)), 32, most_threads);
  const auto kernel = classify<T, kVec, kGradient>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(rows), static_cast<unsigned>(threads), static_cast<std::size_t>(bytes), stream>>>(
      logits, row_losses, targets, Sizes{static_cast<int>(vocabulary), stride, bytes / 16}, scale);
}

template <bool kGradient>
void cross_entropy(CUstream_st* stream, DType dtype, double* loss, float* row_losses, void* logits, const std::int32_t* targets,
                   Count rows, Count vocabulary, Count stride, float scale) {
  if (rows == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto run = is_wide<T>(stride, logits) ? launch<T, kWide<T>, kGradient> : launch<T, 1, kGradient>;
    run(stream, row_losses, static_cast<T*>(logits), targets, rows, vocabulary, stride, scale);
  });
  add_total<<<1, kTotalThreads, 0, stream>>>(loss, row_losses, rows);
}

}  // namespace

void cross_entropy_forward(CUstream_st* stream, DType dtype, double* loss, float* row_losses, const void* logits,
                           const std::int32_t* targets, Count rows, Count vocabulary, Count stride) {
  // The kernel is one; without a gradient it does not write logits.
  cross_entropy<false>(stream, dtype, loss, row_losses, const_cast<void*>(logits), targets, rows, vocabulary, stride, 0.0f);
}

void cross_entropy_forward_backward(CUstream_st* stream, DType dtype, double* loss, float* row_losses, void* logits,
                                    const std::int32_t* targets, Count rows, Count vocabulary, Count stride, float scale) {
  cross_entropy<true>(stream, dtype, loss, row_losses, logits, targets, rows, vocabulary, stride, scale);
}

}  // namespace cohort::ops::cuda
