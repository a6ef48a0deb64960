#include "ops/norm.hpp"

#include <cmath>

#include "ops/columns.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check_rows(const Tensor& x, const Tensor& other) {
  COHORT_CHECK(x.shape().rows() == other.shape().rows() && x.shape().columns() == other.shape().columns(), "norm: {} against {}",
               x.shape().str(), other.shape().str());
}

// The mean, then the variance of what is left: subtracting the mean first keeps a large mean from cancelling.
template <class T>
void layernorm_forward_kernel(const Exec& exec, Count rows, Count n, T* out, float* mean, float* rstd, const T* x,
                              const T* weight, const T* bias, float epsilon) {
  for_rows(
      exec, "cohort::layernorm_forward", rows, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const T* xr = x + r * n;
        T* yr = out + r * n;
        const float m = row.sum(n, [=](Count c) { return to_float(xr[c]); }) / static_cast<float>(n);
        const float squares = row.sum(n, [=](Count c) {
          const float centred = to_float(xr[c]) - m;
          return centred * centred;
        });
        const float s = 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
        row.each(n, [=](Count c) { yr[c] = from_float<T>((to_float(xr[c]) - m) * s * to_float(weight[c]) + to_float(bias[c])); });
        row.once([=] {
          mean[r] = m;
          rstd[r] = s;
        });
      });
}

template <class T>
void layernorm_backward_kernels(const Exec& exec, Count rows, Count n, T* dx, float* dweight, float* dbias, const T* dout,
                                const T* x, const T* weight, const float* mean, const float* rstd) {
  for_rows(
      exec, "cohort::layernorm_backward_x", rows, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const T* xr = x + r * n;
        const T* dyr = dout + r * n;
        T* dxr = dx + r * n;
        const float m = mean[r], s = rstd[r];
        // Of the gradient with respect to the normalised row, and of that times the normalised row.
        const Pair sums = row.sum_pairs(n, [=](Count c) {
          const float dnorm = to_float(dyr[c]) * to_float(weight[c]);
          return Pair{dnorm, dnorm * (to_float(xr[c]) - m) * s};
        });
        const float mean_d = sums.first / static_cast<float>(n), mean_dx = sums.second / static_cast<float>(n);
        row.each(n, [=](Count c) {
          const float d = s * (to_float(dyr[c]) * to_float(weight[c]) - mean_d - (to_float(xr[c]) - m) * s * mean_dx);
          dxr[c] = from_float<T>(to_float(dxr[c]) + d);
        });
      });
  sum_rows<Pair>(
      exec, "cohort::layernorm_backward_weight", rows, n,
      KOKKOS_LAMBDA(Count r, Count c) {
        const float d = to_float(dout[r * n + c]);
        return Pair{d * (to_float(x[r * n + c]) - mean[r]) * rstd[r], d};
      },
      KOKKOS_LAMBDA(Count c, const Pair& sum) {
        dweight[c] += sum.first;
        dbias[c] += sum.second;
      });
}

template <class T>
void rmsnorm_forward_kernel(const Exec& exec, Count rows, Count n, T* out, float* rstd, const T* x, const T* weight,
                            float epsilon) {
  for_rows(
      exec, "cohort::rmsnorm_forward", rows, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const T* xr = x + r * n;
        T* yr = out + r * n;
        const float squares = row.sum(n, [=](Count c) { return to_float(xr[c]) * to_float(xr[c]); });
        const float s = 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
        row.each(n, [=](Count c) { yr[c] = from_float<T>(to_float(xr[c]) * s * to_float(weight[c])); });
        row.once([=] { rstd[r] = s; });
      });
}

template <class T>
void rmsnorm_backward_kernels(const Exec& exec, Count rows, Count n, T* dx, float* dweight, const T* dout, const T* x,
                              const T* weight, const float* rstd) {
  for_rows(
      exec, "cohort::rmsnorm_backward_x", rows, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const T* xr = x + r * n;
        const T* dyr = dout + r * n;
        T* dxr = dx + r * n;
        const float s = rstd[r];
        const float sum = row.sum(n, [=](Count c) { return to_float(dyr[c]) * to_float(weight[c]) * to_float(xr[c]) * s; });
        const float mean_dx = sum / static_cast<float>(n);
        row.each(n, [=](Count c) {
          const float d = s * (to_float(dyr[c]) * to_float(weight[c]) - to_float(xr[c]) * s * mean_dx);
          dxr[c] = from_float<T>(to_float(dxr[c]) + d);
        });
      });
  sum_rows<float>(
      exec, "cohort::rmsnorm_backward_weight", rows, n,
      KOKKOS_LAMBDA(Count r, Count c) { return to_float(dout[r * n + c]) * to_float(x[r * n + c]) * rstd[r]; },
      KOKKOS_LAMBDA(Count c, float sum) { dweight[c] += sum; });
}

}  // namespace

void layernorm_forward(const Exec& exec, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon) {
  if (const auto kernel = tuned_kernels(exec).layernorm_forward) return kernel(exec, out, mean, rstd, x, weight, bias, epsilon);
  check_rows(x, out);
  with_storage_type(x, [&]<class T>(T) {
    layernorm_forward_kernel<T>(exec, x.shape().rows(), x.shape().columns(), out.data<T>(), mean.f32(), rstd.f32(), x.data<T>(),
                                weight.data<T>(), bias.data<T>(), epsilon);
  });
}

void layernorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                        const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                        const Tensor& dx_column_sums) {
  if (const auto kernel = tuned_kernels(exec).layernorm_backward)
    return kernel(exec, dx, dweight, dbias, dout, x, weight, mean, rstd, dx_column_sums);
  check_rows(x, dx);
  check_rows(x, dout);
  with_storage_type(x, [&]<class T>(T) {
    layernorm_backward_kernels<T>(exec, x.shape().rows(), x.shape().columns(), dx.data<T>(), dweight.f32(), dbias.f32(),
                                  dout.data<T>(), x.data<T>(), weight.data<T>(), mean.f32(), rstd.f32());
  });
  if (dx_column_sums.defined()) bias_backward(exec, dx_column_sums, dx);
}

void rmsnorm_forward(const Exec& exec, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     float epsilon) {
  if (const auto kernel = tuned_kernels(exec).rmsnorm_forward) return kernel(exec, out, rstd, x, weight, epsilon);
  check_rows(x, out);
  with_storage_type(x, [&]<class T>(T) {
    rmsnorm_forward_kernel<T>(exec, x.shape().rows(), x.shape().columns(), out.data<T>(), rstd.f32(), x.data<T>(),
                              weight.data<T>(), epsilon);
  });
}

void rmsnorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                      const Tensor& weight, const Tensor& rstd, const Tensor& dx_column_sums) {
  if (const auto kernel = tuned_kernels(exec).rmsnorm_backward)
    return kernel(exec, dx, dweight, dout, x, weight, rstd, dx_column_sums);
  check_rows(x, dx);
  check_rows(x, dout);
  with_storage_type(x, [&]<class T>(T) {
    rmsnorm_backward_kernels<T>(exec, x.shape().rows(), x.shape().columns(), dx.data<T>(), dweight.f32(), dout.data<T>(),
                                x.data<T>(), weight.data<T>(), rstd.f32());
  });
  if (dx_column_sums.defined()) bias_backward(exec, dx_column_sums, dx);
}

}  // namespace cohort::ops
