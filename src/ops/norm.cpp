#include "ops/norm.hpp"

#include <cmath>

#include "ops/columns.hpp"
#include "ops/op_note.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check_rows(const Tensor& x, const Tensor& other) {
  COHORT_CHECK(x.shape().rows() == other.shape().rows() && x.shape().columns() == other.shape().columns(), "norm: {} against {}",
               x.shape().str(), other.shape().str());
}

// The mean, then the variance of what is left: subtracting the mean first keeps a large mean from cancelling.
template <class T>
void layernorm_forward_kernel(const Exec& exec, Count rows, Count n, T* y, float* mean, float* rstd, const T* x, const T* weight,
                              const T* bias, float epsilon) {
  for_rows(
      exec, "cohort::layernorm_forward", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const auto xr = in(x + r * n);
        const float m = row.sum(
                            n, [=](float value) { return value; }, xr) /
                        static_cast<float>(n);
        const float squares = row.sum(
            n, [=](float value) { return (value - m) * (value - m); }, xr);
        const float s = 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
        row.zip(
            n, [=](float value, float w, float b, float& to) { to = (value - m) * s * w + b; }, xr, in(weight), in(bias),
            out(y + r * n));
        row.once([=] {
          mean[r] = m;
          rstd[r] = s;
        });
      });
}

template <class T>
void layernorm_backward_kernel(const Exec& exec, Count rows, Count n, T* dx, float* dweight, float* dbias, const T* dy,
                               const T* x, const T* weight, const float* mean, const float* rstd) {
  for_rows_with_sums<Pair>(
      exec, "cohort::layernorm_backward", rows, n,
      KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const auto xr = in(x + r * n), dyr = in(dy + r * n), w = in(weight);
        const float m = mean[r], s = rstd[r];
        // Of the gradient with respect to the normalised row, and of that times the normalised row.
        const Pair sums = row.sum_pairs(
            n,
            [=](float d, float value, float factor) {
              return Pair{d * factor, d * factor * (value - m) * s};
            },
            dyr, xr, w);
        const float mean_d = sums.first / static_cast<float>(n), mean_dx = sums.second / static_cast<float>(n);
        row.zip(
            n,
            [=](float d, float value, float factor, float& to) { to += s * (d * factor - mean_d - (value - m) * s * mean_dx); },
            dyr, xr, w, in_out(dx + r * n));
      },
      KOKKOS_LAMBDA(float d, float value, float m, float s) {
        return Pair{d * (value - m) * s, d};
      },
      KOKKOS_LAMBDA(Count c, const Pair& sum) {
        dweight[c] += sum.first;
        dbias[c] += sum.second;
      },
      rows_in(dy, n), rows_in(x, n), number_of_row(mean), number_of_row(rstd));
}

template <class T>
void rmsnorm_forward_kernel(const Exec& exec, Count rows, Count n, T* y, float* rstd, const T* x, const T* weight,
                            float epsilon) {
  for_rows(
      exec, "cohort::rmsnorm_forward", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const auto xr = in(x + r * n);
        const float squares = row.sum(
            n, [=](float value) { return value * value; }, xr);
        const float s = 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
        row.zip(
            n, [=](float value, float w, float& to) { to = value * s * w; }, xr, in(weight), out(y + r * n));
        row.once([=] { rstd[r] = s; });
      });
}

template <class T>
void rmsnorm_backward_kernel(const Exec& exec, Count rows, Count n, T* dx, float* dweight, const T* dy, const T* x,
                             const T* weight, const float* rstd) {
  for_rows_with_sums<float>(
      exec, "cohort::rmsnorm_backward", rows, n,
      KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const auto xr = in(x + r * n), dyr = in(dy + r * n), w = in(weight);
        const float s = rstd[r];
        const float sum = row.sum(
            n, [=](float d, float value, float factor) { return d * factor * value * s; }, dyr, xr, w);
        const float mean_dx = sum / static_cast<float>(n);
        row.zip(
            n, [=](float d, float value, float factor, float& to) { to += s * (d * factor - value * s * mean_dx); }, dyr, xr, w,
            in_out(dx + r * n));
      },
      KOKKOS_LAMBDA(float d, float value, float s) { return d * value * s; },
      KOKKOS_LAMBDA(Count c, float sum) { dweight[c] += sum; }, rows_in(dy, n), rows_in(x, n), number_of_row(rstd));
}

}  // namespace

void layernorm_forward(const Exec& exec, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon) {
  const OpNote note("layernorm_forward", {&x, &weight, &bias}, {&out, &mean, &rstd});
  if (const auto kernel = tuned_kernels(exec).layernorm_forward) return kernel(exec, out, mean, rstd, x, weight, bias, epsilon);
  check_rows(x, out);
  with_storage_type(x, [&]<class T>(T) {
    layernorm_forward_kernel<T>(exec, x.shape().rows(), x.shape().columns(), out.data<T>(), mean.f32(), rstd.f32(), x.data<T>(),
                                weight.data<T>(), bias.data<T>(), epsilon);
  });
}

void layernorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                        const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  const OpNote note("layernorm_backward", {&dout, &x, &weight, &mean, &rstd, &dx}, {&dx, &dweight, &dbias});
  if (const auto kernel = tuned_kernels(exec).layernorm_backward)
    return kernel(exec, dx, dweight, dbias, dout, x, weight, mean, rstd);
  check_rows(x, dx);
  check_rows(x, dout);
  with_storage_type(x, [&]<class T>(T) {
    layernorm_backward_kernel<T>(exec, x.shape().rows(), x.shape().columns(), dx.data<T>(), dweight.f32(), dbias.f32(),
                                 dout.data<T>(), x.data<T>(), weight.data<T>(), mean.f32(), rstd.f32());
  });
}

void rmsnorm_forward(const Exec& exec, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     float epsilon) {
  const OpNote note("rmsnorm_forward", {&x, &weight}, {&out, &rstd});
  if (const auto kernel = tuned_kernels(exec).rmsnorm_forward) return kernel(exec, out, rstd, x, weight, epsilon);
  check_rows(x, out);
  with_storage_type(x, [&]<class T>(T) {
    rmsnorm_forward_kernel<T>(exec, x.shape().rows(), x.shape().columns(), out.data<T>(), rstd.f32(), x.data<T>(),
                              weight.data<T>(), epsilon);
  });
}

void rmsnorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                      const Tensor& weight, const Tensor& rstd) {
  const OpNote note("rmsnorm_backward", {&dout, &x, &weight, &rstd, &dx}, {&dx, &dweight});
  if (const auto kernel = tuned_kernels(exec).rmsnorm_backward) return kernel(exec, dx, dweight, dout, x, weight, rstd);
  check_rows(x, dx);
  check_rows(x, dout);
  with_storage_type(x, [&]<class T>(T) {
    rmsnorm_backward_kernel<T>(exec, x.shape().rows(), x.shape().columns(), dx.data<T>(), dweight.f32(), dout.data<T>(),
                               x.data<T>(), weight.data<T>(), rstd.f32());
  });
}

}  // namespace cohort::ops
