// ops/row_product.hpp on a CPU: vector code that reads the weight as fast as one core gets it from memory. 16-bit weights are
// read as they are, and widened in registers.
#include "ops/cpu/kernels.hpp"
#include "ops/host_loop.hpp"
#include "tensor/storage_type.hpp"

namespace cohort::ops::cpu {
namespace {

// Each sum is kLanes sums, one for each column of a stretch of so many: a register of AVX-512, 2 of AVX2.
constexpr int kLanes = 16;
// A row is read in places far apart, several outputs at once: the processor fetches ahead in each of them, and the sums of one
// hide the latency of another's. With more rows the sums themselves are enough, and registers few.
constexpr int kPlacesOfOneRow = 4;
constexpr int kPlacesOfRows = 2;
// How far ahead of its place the weight is asked for, across the ends of rows: where it is next read, the memory's latency is
// over. From 2 to 4 KiB gave the same time, 1 KiB a longer one.
constexpr Bytes kAheadBytes = 2048;
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

// The products of kRows rows of x, from `first` on, with kPlaces outputs, `apart` from each other. What a row's sum consists of,
// and in which order, is the same for every number of both.
template <int kRows, int kPlaces, class T>
void products(const RowProduct<T>& p, Count first, Count output, Count apart) {
  const T* const x = p.x + first * p.k;
  const T* const weight = p.weight + output * p.k;
  float sums[kRows][kPlaces][kLanes] = {};
  const Count whole = p.k / kLanes * kLanes;
  for (Count c = 0; c < whole; c += kLanes) {
    for (int place = 0; place < kPlaces; ++place) {
      const T* const w = weight + place * apart * p.k + c;
      __builtin_prefetch(reinterpret_cast<const char*>(w) + kAheadBytes);  // beyond the weight it does nothing
      for (int r = 0; r < kRows; ++r) {
#pragma omp simd
        for (int lane = 0; lane < kLanes; ++lane) sums[r][place][lane] += to_float(x[r * p.k + c + lane]) * to_float(w[lane]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int place = 0; place < kPlaces; ++place) {
      float* const sum = sums[r][place];
      const T* const w = weight + place * apart * p.k;
      for (Count c = whole; c < p.k; ++c) sum[c - whole] += to_float(x[r * p.k + c]) * to_float(w[c]);
      fold<8>(sum);  // loops of known lengths: the same in a loop over them was seen to take as long as the products
      fold<4>(sum);
      fold<2>(sum);
      fold<1>(sum);
      p.store(first + r, output + place * apart, sum[0]);
    }
  }
}

template <int kPlaces, class T>
void products_of_rows(const RowProduct<T>& p, Count rows, Count output, Count apart) {
  Count r = 0;
  for (; r + kMostRows <= rows; r += kMostRows) products<kMostRows, kPlaces>(p, r, output, apart);
  switch (rows - r) {
    case 3:
      return products<3, kPlaces>(p, r, output, apart);
    case 2:
      return products<2, kPlaces>(p, r, output, apart);
    case 1:
      return products<1, kPlaces>(p, r, output, apart);
    default:
      return;
  }
}

// The outputs [begin, end): a stretch of them for each place, and the few that are left.
template <int kPlaces, class T>
void products_of_outputs(const RowProduct<T>& p, Count rows, Count begin, Count end) {
  const Count stretch = (end - begin) / kPlaces;
  for (Count output = begin; output < begin + stretch; ++output) products_of_rows<kPlaces>(p, rows, output, stretch);
  for (Count output = begin + kPlaces * stretch; output < end; ++output) products_of_rows<1>(p, rows, output, 0);
}

template <class T>
void all_products(const RowProduct<T>& p, Count rows) {
  const auto run = [&](Count begin, Count end, int) {
    if (rows == 1) return products_of_outputs<kPlacesOfOneRow>(p, rows, begin, end);
    products_of_outputs<kPlacesOfRows>(p, rows, begin, end);
  };
  if (p.n * p.k < kLeastOfThreads) return run(0, p.n, 0);
  for_runs(p.n, run);
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
