// ops/row_product.hpp on a CPU: vector code whose sums are as many as hide the latency of an addition, so that one core reads the
// weight as fast as its memory gives it. 16-bit weights are read as they are, and widened in registers.
#include <algorithm>

#include "ops/cpu/kernels.hpp"
#include "tensor/storage_type.hpp"

namespace cohort::ops::cpu {
namespace {

// Each sum is kLanes sums, one for each column of a stretch of so many: 2 registers of AVX-512, 4 of AVX2.
constexpr int kLanes = 32;  // 2 x the first fold
// A weight with fewer elements is not worth starting threads for.
constexpr Count kLeastOfThreads = Count{1} << 16;
// Rows of x that share one reading of the weight from the nearest cache into registers.
constexpr int kMostRows = 4;

template <class T>
struct RowProduct {
  Count n, k;
  T* y;
  Count y_stride;
  const T* x;
  const T* weight;
  const T* residual;  // null: none
  const T* bias;      // null: none

  void store(Count r, Count output, float sum) const {
    if (residual != nullptr) sum += to_float(residual[r * n + output]);
    if (bias != nullptr) sum += to_float(bias[output]);
    y[r * y_stride + output] = from_float<T>(sum);
  }
};

// Adds the second half of 2 kHalf sums to the first.
template <int kHalf>
void fold(float* sums) {
#pragma omp simd
  for (int lane = 0; lane < kHalf; ++lane) sums[lane] += sums[lane + kHalf];
}

// The products of one output with kRows rows of x from `first` on. What a row's sum consists of, and in which order, is the same
// for every kRows.
template <int kRows, class T>
void products(const RowProduct<T>& p, Count first, Count output) {
  const T* const w = p.weight + output * p.k;
  const T* const x = p.x + first * p.k;
  float sums[kRows][kLanes] = {};
  const Count whole = p.k / kLanes * kLanes;
  for (Count c = 0; c < whole; c += kLanes) {
    for (int r = 0; r < kRows; ++r) {
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) sums[r][lane] += to_float(x[r * p.k + c + lane]) * to_float(w[c + lane]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (Count c = whole; c < p.k; ++c) sums[r][c - whole] += to_float(x[r * p.k + c]) * to_float(w[c]);
    fold<16>(sums[r]);  // loops of known lengths: the same in a loop over them was seen to take as long as the products
    fold<8>(sums[r]);
    fold<4>(sums[r]);
    fold<2>(sums[r]);
    fold<1>(sums[r]);
    p.store(first + r, output, sums[r][0]);
  }
}

template <class T>
void all_products(const RowProduct<T>& p, Count rows) {
#pragma omp parallel for schedule(static) if (p.n * p.k >= kLeastOfThreads)
  for (Count output = 0; output < p.n; ++output) {
    Count r = 0;
    for (; r + kMostRows <= rows; r += kMostRows) products<kMostRows>(p, r, output);
    switch (rows - r) {
      case 3:
        products<3>(p, r, output);
        break;
      case 2:
        products<2>(p, r, output);
        break;
      case 1:
        products<1>(p, r, output);
        break;
      default:
        break;
    }
  }
}

}  // namespace

void row_product(const Exec&, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual,
                 const Tensor& bias) {
  with_storage_type(y, [&]<class T>(T) {
    all_products<T>({weight.shape()[0], weight.shape()[1], y.data<T>(), y.shape().columns(), x.data<T>(), weight.data<T>(),
                     residual.defined() ? residual.data<T>() : nullptr, bias.defined() ? bias.data<T>() : nullptr},
                    x.shape().rows());
  });
}

}  // namespace cohort::ops::cpu
