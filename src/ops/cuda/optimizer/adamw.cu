#include <cmath>

#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/optimizer/adamw.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kThreads = 256;
// Packs (of each array) of one thread that are on their way at one time.
constexpr int kAhead = 2;
constexpr int kVecOfFloats = kWide<float>;

template <class Working>
struct Arrays {
  float* weight;
  float* m;
  float* v;
  const float* gradient;
  Working* working;  // of type float: there is none
  Count elements;
  const AdamWRange* ranges;
  int range_count;
};

struct Rates {
  float learning_rate, beta1, beta2, epsilon;
  float m_correction, v_correction;  // 1 / (1 - beta^step)
};

__device__ __forceinline__ void update(float& weight, float& m, float& v, float gradient, float weight_decay, const Rates& r) {
  m = r.beta1 * m + (1.0f - r.beta1) * gradient;
  v = r.beta2 * v + (1.0f - r.beta2) * gradient * gradient;
  const float step = m * r.m_correction / (sqrtf(v * r.v_correction) + r.epsilon);
  weight -= r.learning_rate * (step + weight_decay * weight);
}

// The first range that does not end at or before `element`, at or after `range`.
__device__ __forceinline__ int next_range(const AdamWRange* ranges, int count, int range, Count element) {
  while (range < count && ranges[range].end <= element) ++range;
  return range;
}

// The same from the start, in as many steps as the number of ranges has bits.
__device__ int find_range(const AdamWRange* ranges, int count, Count element) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ranges[middle].end <= element) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class Working>
__device__ void update_one(const Arrays<Working>& a, Count i, float gradient_scale, float weight_decay, const Rates& rates) {
  update(a.weight[i], a.m[i], a.v[i], a.gradient[i] * gradient_scale, weight_decay, rates);
  if constexpr (sizeof(Working) == 2) a.working[i] = from_float<Working>(a.weight[i]);
}

template <class Working, int kVec>
__global__ void __launch_bounds__(kThreads) adamw_step(Arrays<Working> a, Rates rates, const OptimizerScalars* scalars) {
  if (scalars->skip != 0) return;
  const float gradient_scale = scalars->gradient_scale;
  const Count begin = Count{blockIdx.x} * kThreads * kAhead * kVec;
  const Count mine = begin + Count{threadIdx.x} * kVec;
  Pack<float, kVec> packs[kAhead][4];  // weight, m, v, gradient
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const Count at = mine + k * kThreads * kVec;
    if (at + kVec > a.elements) continue;
    packs[k][0] = load<float, kVec>(a.weight + at);
    packs[k][1] = load<float, kVec>(a.m + at);
    packs[k][2] = load<float, kVec>(a.v + at);
    packs[k][3] = load<float, kVec>(a.gradient + at);
  }
  int range = find_range(a.ranges, a.range_count, begin);
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const Count at = mine + k * kThreads * kVec;
    range = next_range(a.ranges, a.range_count, range, at);
    if (range == a.range_count) return;
    const AdamWRange here = a.ranges[range];
    if (here.begin <= at && at + kVec <= here.end) {
      float weight[kVec], m[kVec], v[kVec], gradient[kVec];
      widen(weight, packs[k][0]);
      widen(m, packs[k][1]);
      widen(v, packs[k][2]);
      widen(gradient, packs[k][3]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) update(weight[i], m[i], v[i], gradient[i] * gradient_scale, here.weight_decay, rates);
      store(a.weight + at, narrow<float>(weight));
      store(a.m + at, narrow<float>(m));
      store(a.v + at, narrow<float>(v));
      if constexpr (sizeof(Working) == 2) store(a.working + at, narrow<Working>(weight));
      continue;
    }
    // A pack with the end of a range, or of the arrays, in it.
    int range_of_one = range;
    for (Count i = at; i < at + kVec; ++i) {
      range_of_one = next_range(a.ranges, a.range_count, range_of_one, i);
      if (range_of_one == a.range_count) return;
      const AdamWRange& its = a.ranges[range_of_one];
      if (its.begin <= i) update_one(a, i, gradient_scale, its.weight_decay, rates);
    }
  }
}

template <class Working, int kVec>
void launch_adamw(CUstream_st* stream, const Arrays<Working>& arrays, const Rates& rates, const OptimizerScalars* scalars) {
  const auto blocks = static_cast<unsigned>(divide_up(arrays.elements, Count{kThreads} * kAhead * kVec));
  adamw_step<Working, kVec><<<blocks, kThreads, 0, stream>>>(arrays, rates, scalars);
}

// A fixed number of blocks, so that the sum has one order on every card; enough for the largest.
constexpr int kSumBlocks = 1024;
constexpr int kSumAhead = 4;

template <int kVec>
__global__ void __launch_bounds__(kThreads) sum_squares(double* partials, const float* __restrict__ x, Count elements) {
  __shared__ double shared[kThreads / 32];
  const Count packs = elements / kVec;
  const Count first = Count{blockIdx.x} * kThreads + threadIdx.x;
  constexpr Count kStep = Count{kSumBlocks} * kThreads;
  double sums[kVec] = {};
  for (Count p = first; p < packs; p += kSumAhead * kStep) {
    Pack<float, kVec> ahead[kSumAhead];
#pragma unroll
    for (int k = 0; k < kSumAhead; ++k) {
      ahead[k] = p + k * kStep < packs ? load<float, kVec>(x + (p + k * kStep) * kVec) : zeros<float, kVec>();
    }
#pragma unroll
    for (int k = 0; k < kSumAhead; ++k) {
      float values[kVec];
      widen(values, ahead[k]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) sums[i] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
  }
  double sum = 0.0;
#pragma unroll
  for (int i = 0; i < kVec; ++i) sum += sums[i];
  const Count rest = packs * kVec + first;  // what does not fill a last pack: one element for each of a few threads
  if (rest < elements) sum += static_cast<double>(x[rest]) * static_cast<double>(x[rest]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) sum += shared[warp];
  partials[blockIdx.x] = sum;
}

}  // namespace

void adamw(CUstream_st* stream, float* weight, float* m, float* v, const float* gradient, DType working_dtype, void* working,
           const AdamWRange* ranges, int range_count, Count elements, const AdamWStep& step, const OptimizerScalars* scalars) {
  if (elements == 0) return;
  // In double precision: 1 - beta^step loses digits in fp32 for the first steps of a beta near 1.
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step.step))));
  };
  const Rates rates{step.learning_rate, step.beta1, step.beta2, step.epsilon, correction(step.beta1), correction(step.beta2)};
  for_dtype(working_dtype, [&](auto tag) {
    using Working = typename decltype(tag)::Type;
    const Arrays<Working> arrays{weight, m, v, gradient, static_cast<Working*>(working), elements, ranges, range_count};
    const bool wide = is_wide<float>(0, weight, m, v, gradient, working);
    const auto launch = wide ? launch_adamw<Working, kVecOfFloats> : launch_adamw<Working, 1>;
    launch(stream, arrays, rates, scalars);
  });
}

Bytes sum_of_squares_scratch_bytes() { return kSumBlocks * Bytes{sizeof(double)}; }

void sum_of_squares(CUstream_st* stream, double* sum, const float* x, Count elements, void* scratch) {
  double* const partials = static_cast<double*>(scratch);
  if (is_wide<float>(0, x)) {
    sum_squares<kVecOfFloats><<<kSumBlocks, kThreads, 0, stream>>>(partials, x, elements);
  } else {
    sum_squares<1><<<kSumBlocks, kThreads, 0, stream>>>(partials, x, elements);
  }
  add_total<<<1, kTotalThreads, 0, stream>>>(sum, partials, kSumBlocks);
}

}  // namespace cohort::ops::cuda
