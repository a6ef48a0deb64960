#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/norm/norm.hpp"
#include "ops/cuda/norm/norm_rows.cuh"

namespace cohort::ops::cuda {
namespace {

template <class T>
struct Arguments {
  T* out;
  float* mean;  // null for RMS
  float* rstd;
  const T* x;
  const T* weight;
  const T* bias;  // null for RMS
  Count rows;
  int columns;
  float per_column;  // 1 / C
  float epsilon;
};

// Rows that a block holds at one time: one wait for memory and one barrier serve all of them.
template <class Shape>
constexpr int kRows = Shape::kPacks > 1 ? 1 : (Shape::kMostThreads > 512 ? 2 : 4);

// Both norms: kMean tells them apart. 1024 threads on a multiprocessor leave 64 registers for each. The variance is summed from
// the deviations, not from squares of x whose mean is large.
template <class T, class Shape, bool kMean>
__global__ void __launch_bounds__(Shape::kMostThreads, 1024 / Shape::kMostThreads) norm_forward(Arguments<T> a) {
  constexpr int kVec = Shape::kVec;
  constexpr int kPacks = Shape::kPacks;
  constexpr int R = kRows<Shape>;
  __shared__ float shared[2][32][R];
  const Count row = Count{blockIdx.x} * R;
  const int rows_here = static_cast<int>(min(Count{R}, a.rows - row));
  const T* const rows_in = a.x + row * a.columns;
  T* const rows_out = a.out + row * a.columns;

  Pack<T, kVec> x[R][kPacks];
  Pack<T, kVec> weight[kPacks];
  Pack<T, kVec> bias[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int column = row_column<Shape>(j);
    const bool inside = column < a.columns;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      x[r][j] = inside && r < rows_here ? load<T, kVec>(rows_in + r * a.columns + column) : zeros<T, kVec>();
    }
    weight[j] = inside ? load<T, kVec>(a.weight + column) : zeros<T, kVec>();
    if constexpr (kMean) bias[j] = inside ? load<T, kVec>(a.bias + column) : zeros<T, kVec>();
  }

  float mean[R] = {};
  if constexpr (kMean) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        float values[kVec];
        widen(values, x[r][j]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) mean[r] += values[i];
      }
    }
    block_sums(mean, shared[0]);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      mean[r] *= a.per_column;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) widen_anew(x[r][j]);
    }
  }

  float rstd[R] = {};
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (row_column<Shape>(j) >= a.columns) continue;
      float values[kVec];
      widen(values, x[r][j]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) rstd[r] += (values[i] - mean[r]) * (values[i] - mean[r]);
    }
  }
  block_sums(rstd, shared[1]);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    rstd[r] = rsqrtf(rstd[r] * a.per_column + a.epsilon);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) widen_anew(x[r][j]);
  }

#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (r >= rows_here) return;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int column = row_column<Shape>(j);
      if (column >= a.columns) continue;
      float values[kVec];
      float w[kVec];
      float b[kVec] = {};
      widen(values, x[r][j]);
      widen(w, weight[j]);
      if constexpr (kMean) widen(b, bias[j]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) values[i] = (values[i] - mean[r]) * rstd[r] * w[i] + b[i];
      store(rows_out + r * a.columns + column, narrow<T>(values));
    }
    if (threadIdx.x != 0) continue;
    if constexpr (kMean) a.mean[row + r] = mean[r];
    a.rstd[row + r] = rstd[r];
  }
}

template <bool kMean>
void forward(CUstream_st* stream, DType dtype, void* out, float* mean, float* rstd, const void* x, const void* weight,
             const void* bias, Count rows, Count columns, float epsilon) {
  if (rows == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Arguments<T> arguments{static_cast<T*>(out),
                                 mean,
                                 rstd,
                                 static_cast<const T*>(x),
                                 static_cast<const T*>(weight),
                                 static_cast<const T*>(bias),
                                 rows,
                                 static_cast<int>(columns),
                                 1.0f / static_cast<float>(columns),
                                 epsilon};
    for_row_shape<T>(columns, is_wide<T>(columns, out, x, weight, bias), [&](auto shape, int threads) {
      using Shape = decltype(shape);
      const auto blocks = static_cast<unsigned>(divide_up(rows, kRows<Shape>));
      norm_forward<T, Shape, kMean><<<blocks, threads, 0, stream>>>(arguments);
    });
  });
}

}  // namespace

void layernorm_forward(CUstream_st* stream, DType dtype, void* out, float* mean, float* rstd, const void* x, const void* weight,
                       const void* bias, Count rows, Count columns, float epsilon) {
  forward<true>(stream, dtype, out, mean, rstd, x, weight, bias, rows, columns, epsilon);
}

void rmsnorm_forward(CUstream_st* stream, DType dtype, void* out, float* rstd, const void* x, const void* weight, Count rows,
                     Count columns, float epsilon) {
  forward<false>(stream, dtype, out, nullptr, rstd, x, weight, nullptr, rows, columns, epsilon);
}

}  // namespace cohort::ops::cuda
