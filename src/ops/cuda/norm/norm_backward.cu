#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/norm/norm.hpp"
#include "ops/cuda/norm/norm_rows.cuh"
#include "ops/cuda/sums/column_partials.hpp"

namespace cohort::ops::cuda {
namespace {

template <class T>
struct Arguments {
  T* dx;
  const T* dout;
  const T* x;
  const T* weight;
  const float* mean;  // null for RMS
  const float* rstd;
  float* partials;  // [2, blocks, C]: sums of dweight and of dbias
  Count rows;
  int columns;
  float per_column;  // 1 / C
};

constexpr int kPartialsOfWeight = 0;
constexpr int kPartialsOfBias = 1;

// Rows that a block holds at one time: one wait for memory and one barrier serve all of them. Wide rows leave registers for
// one only, and the widest (more than 8192 elements of 16 bits) spill some of their sums.
template <class Shape>
constexpr int kRows = Shape::kMostThreads > 512 ? 1 : 2;

// Blocks on a multiprocessor that the compiler makes room for: 768 threads leave 80 registers for each.
template <class Shape>
constexpr int kBlocksAtOnce = Shape::kMostThreads > 256 ? 1 : 3;

// The inputs of a thread for one row.
template <class T, class Shape>
struct RowPart {
  Pack<T, Shape::kVec> dout[Shape::kPacks];
  Pack<T, Shape::kVec> x[Shape::kPacks];
  Pack<T, Shape::kVec> dx[Shape::kPacks];
  float mean;
  float rstd;

  // A row beyond the last is made of zeros, and adds nothing to any sum.
  __device__ __forceinline__ void read(const Arguments<T>& a, Count row, bool with_mean) {
    const bool exists = row < a.rows;
#pragma unroll
    for (int j = 0; j < Shape::kPacks; ++j) {
      const int column = row_column<Shape>(j);
      const Count at = row * a.columns + column;
      const bool inside = exists && column < a.columns;
      dout[j] = inside ? load<T, Shape::kVec>(a.dout + at) : zeros<T, Shape::kVec>();
      x[j] = inside ? load<T, Shape::kVec>(a.x + at) : zeros<T, Shape::kVec>();
      dx[j] = inside ? load<T, Shape::kVec>(a.dx + at) : zeros<T, Shape::kVec>();
    }
    mean = with_mean && exists ? a.mean[row] : 0.0f;
    rstd = exists ? a.rstd[row] : 0.0f;
  }

  __device__ __forceinline__ void widen_again() {
#pragma unroll
    for (int j = 0; j < Shape::kPacks; ++j) {
      widen_anew(dout[j]);
      widen_anew(x[j]);
    }
  }
};

// Both norms: kMean tells them apart. With xhat = (x - mean) rstd and g = dout * weight:
//   dx += rstd (g - mean(g) - xhat mean(g xhat)),  dweight += dout xhat,  dbias += dout.
template <class T, class Shape, bool kMean>
__global__ void __launch_bounds__(Shape::kMostThreads, kBlocksAtOnce<Shape>) norm_backward(Arguments<T> a) {
  constexpr int kVec = Shape::kVec;
  constexpr int kPacks = Shape::kPacks;
  constexpr int R = kRows<Shape>;
  constexpr int kMeans = kMean ? 2 : 1;  // per row: mean(g xhat), and mean(g)
  __shared__ float shared[2][32][R * kMeans];

  Pack<T, kVec> weights[kPacks];
  float dweight[kPacks][kVec] = {};
  float dbias[kPacks][kVec] = {};
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int column = row_column<Shape>(j);
    weights[j] = column < a.columns ? load<T, kVec>(a.weight + column) : zeros<T, kVec>();
  }

  int turn = 0;
  for (Count row = Count{blockIdx.x} * R; row < a.rows; row += Count{gridDim.x} * R) {
    RowPart<T, Shape> parts[R];
#pragma unroll
    for (int r = 0; r < R; ++r) parts[r].read(a, row + r, kMean);

    float means[R * kMeans] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        float dout[kVec];
        float x[kVec];
        float weight[kVec];
        widen(dout, parts[r].dout[j]);
        widen(x, parts[r].x[j]);
        widen(weight, weights[j]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          const float xhat = (x[i] - parts[r].mean) * parts[r].rstd;
          const float g = dout[i] * weight[i];
          means[r * kMeans] += g * xhat;
          if constexpr (kMean) means[r * kMeans + 1] += g;
          dweight[j][i] += dout[i] * xhat;
          if constexpr (kMean) dbias[j][i] += dout[i];
        }
      }
    }
    block_sums(means, shared[turn]);
    turn ^= 1;

#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (row + r >= a.rows) break;
      parts[r].widen_again();
      const float mean_g_xhat = means[r * kMeans] * a.per_column;
      const float mean_g = kMean ? means[r * kMeans + kMeans - 1] * a.per_column : 0.0f;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int column = row_column<Shape>(j);
        if (column >= a.columns) continue;
        float dout[kVec];
        float x[kVec];
        float dx[kVec];
        float weight[kVec];
        widen(dout, parts[r].dout[j]);
        widen(x, parts[r].x[j]);
        widen(weight, weights[j]);
        widen(dx, parts[r].dx[j]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          const float xhat = (x[i] - parts[r].mean) * parts[r].rstd;
          dx[i] += parts[r].rstd * (dout[i] * weight[i] - mean_g - xhat * mean_g_xhat);
        }
        store(a.dx + (row + r) * a.columns + column, narrow<T>(dx));
      }
    }
  }

  const auto keep = [&](int quantity, const float(&sums)[kPacks][kVec]) {
    float* const partials = a.partials + (quantity * Count{gridDim.x} + blockIdx.x) * a.columns;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int column = row_column<Shape>(j);
      if (column < a.columns) store_floats(partials + column, sums[j]);
    }
  };
  keep(kPartialsOfWeight, dweight);
  if constexpr (kMean) keep(kPartialsOfBias, dbias);
}

template <bool kMean>
void backward(CUstream_st* stream, DType dtype, void* dx, const ColumnSums& sums, const void* dout, const void* x,
              const void* weight, const float* mean, const float* rstd, Count rows, Count columns, void* scratch) {
  if (rows == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Arguments<T> arguments{static_cast<T*>(dx),
                                 static_cast<const T*>(dout),
                                 static_cast<const T*>(x),
                                 static_cast<const T*>(weight),
                                 mean,
                                 rstd,
                                 static_cast<float*>(scratch),
                                 rows,
                                 static_cast<int>(columns),
                                 1.0f / static_cast<float>(columns)};
    for_row_shape<T>(columns, is_wide<T>(columns, dx, dout, x, weight, scratch), [&](auto shape, int threads) {
      using Shape = decltype(shape);
      const Count useful = divide_up(rows, kRows<Shape>);
      const Count fitting = resident_blocks(norm_backward<T, Shape, kMean>, threads);
      const Count blocks = std::min({useful, fitting, most_partial_rows(rows, columns)});
      norm_backward<T, Shape, kMean><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(arguments);
      add_column_partials(stream, sums, arguments.partials, kMean ? 2 : 1, blocks, columns);
    });
  });
}

}  // namespace

Bytes norm_backward_scratch_bytes(Count rows, Count columns) {
  return kMostColumnSums * most_partial_rows(rows, columns) * columns * Bytes{sizeof(float)};
}

void layernorm_backward(CUstream_st* stream, DType dtype, void* dx, float* dweight, float* dbias, const void* dout, const void* x,
                        const void* weight, const float* mean, const float* rstd, Count rows, Count columns, void* scratch) {
  const ColumnSums sums{{dweight, dbias}};
  backward<true>(stream, dtype, dx, sums, dout, x, weight, mean, rstd, rows, columns, scratch);
}

void rmsnorm_backward(CUstream_st* stream, DType dtype, void* dx, float* dweight, const void* dout, const void* x,
                      const void* weight, const float* rstd, Count rows, Count columns, void* scratch) {
  const ColumnSums sums{{dweight, nullptr}};
  backward<false>(stream, dtype, dx, sums, dout, x, weight, nullptr, rstd, rows, columns, scratch);
}

}  // namespace cohort::ops::cuda
