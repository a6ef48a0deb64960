#include "ops/row_product.hpp"

#include "ops/parallel.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual) {
  COHORT_CHECK(x.shape().columns() == weight.shape()[1] && y.shape().columns() >= weight.shape()[0] &&
                   y.shape().rows() == x.shape().rows() && (!residual.defined() || residual.elements() == y.elements()),
               "row product: y {} from x {} and weight {}", y.shape().str(), x.shape().str(), weight.shape().str());
  COHORT_CHECK(!residual.defined() || y.shape().columns() == weight.shape()[0], "row product: a residual and padded rows {}",
               y.shape().str());
}

// A row of threads takes an output: it reads that row of the weight from memory once, and from the nearest cache for all rows of
// x but the first. Whether it reads in packs is a question of K alone, not of where a row of x happens to lie: the order of the
// sum, and so the bits, depend on it.
template <class T>
void product_kernel(const Exec& exec, Count rows, Count n, Count k, T* y, Count y_stride, const T* x, const T* weight,
                    const T* residual, const T* bias) {
  const bool in_packs = k * static_cast<Count>(sizeof(T)) % 16 == 0;
  for_rows(
      exec, "cohort::row_product", n, k, KOKKOS_LAMBDA(const Row& row) {
        const Count output = row.index();
        const T* const weights = weight + output * k;
        for (Count r = 0; r < rows; ++r) {
          const T* const from = x + r * k;
          const float value = in_packs ? row.sum(
                                             k, [=](float a, float b) { return a * b; }, in(from), in(weights))
                                       : row.sum(
                                             k, [=](int i) { return to_float(from[i]) * to_float(weights[i]); }, indices());
          row.once([=] {
            float sum = value;
            T& element = y[r * y_stride + output];
            if (residual != nullptr) sum += to_float(residual[r * n + output]);
            if (bias != nullptr) sum += to_float(bias[output]);
            element = from_float<T>(sum);
          });
        }
      });
}

}  // namespace

void row_product(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual,
                 const Tensor& bias) {
  check(y, x, weight, residual);
  if (const auto kernel = tuned_kernels(exec).row_product) return kernel(exec, y, x, weight, residual, bias);
  with_storage_type(y, [&]<class T>(T) {
    product_kernel<T>(exec, x.shape().rows(), weight.shape()[0], weight.shape()[1], y.data<T>(), y.shape().columns(), x.data<T>(),
                      weight.data<T>(), residual.defined() ? residual.data<T>() : nullptr,
                      bias.defined() ? bias.data<T>() : nullptr);
  });
}

}  // namespace cohort::ops
