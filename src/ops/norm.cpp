#include "ops/norm.hpp"

#include <cmath>

#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/parallel.hpp"
#include "ops/pointwise.hpp"

namespace cohort::ops {
namespace {

// The mean and the biased variance of a row, in two passes: subtracting the mean first keeps a large mean from cancelling.
struct Moments {
  float mean;
  float variance;
};
Moments row_moments(const float* x, Count n) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (Count c = 0; c < n; ++c) sum += x[c];
  const float mean = sum / static_cast<float>(n);
  float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
  for (Count c = 0; c < n; ++c) {
    const float centred = x[c] - mean;
    squares += centred * centred;
  }
  return {mean, squares / static_cast<float>(n)};
}

void check_rows(const Tensor& x, const Tensor& other) {
  COHORT_CHECK(x.shape().rows() == other.shape().rows() && x.shape().columns() == other.shape().columns(), "norm: {} against {}",
               x.shape().str(), other.shape().str());
}

}  // namespace

void layernorm_forward(const Exec& exec, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::layernorm_forward(exec, out, mean, rstd, x, weight, bias, epsilon);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return layernorm_forward(exec, fp32.out(out), mean, rstd, fp32.in(x), fp32.in(weight), fp32.in(bias), epsilon);
  }
  check_rows(x, out);
  const Count n = x.shape().columns();
  float* y = out.f32();
  float* means = mean.f32();
  float* rstds = rstd.f32();
  const float* xs = x.f32();
  const float* w = weight.f32();
  const float* b = bias.f32();
  for_rows(exec, "cohort::layernorm_forward", x.shape().rows(), [=](Count r) {
    const float* row = xs + r * n;
    float* yr = y + r * n;
    const Moments moments = row_moments(row, n);
    const float scale = 1.0f / std::sqrt(moments.variance + epsilon);
#pragma omp simd
    for (Count c = 0; c < n; ++c) yr[c] = (row[c] - moments.mean) * scale * w[c] + b[c];
    means[r] = moments.mean;
    rstds[r] = scale;
  });
}

void layernorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                        const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                        const Tensor& dx_column_sums) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::layernorm_backward(exec, dx, dweight, dbias, dout, x, weight, mean, rstd, dx_column_sums);
  }
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return layernorm_backward(exec, fp32.inout(dx), dweight, dbias, fp32.in(dout), fp32.in(x), fp32.in(weight), mean, rstd,
                              dx_column_sums);
  }
  check_rows(x, dx);
  check_rows(x, dout);
  const Count rows = x.shape().rows();
  const Count n = x.shape().columns();
  float* dxs = dx.f32();
  float* dw = dweight.f32();
  float* db = dbias.f32();
  const float* dy = dout.f32();
  const float* xs = x.f32();
  const float* w = weight.f32();
  const float* means = mean.f32();
  const float* rstds = rstd.f32();
  for_rows(exec, "cohort::layernorm_backward_x", rows, [=](Count r) {
    const float* row = xs + r * n;
    const float* dyr = dy + r * n;
    float* dxr = dxs + r * n;
    const float m = means[r];
    const float s = rstds[r];
    float sum = 0.0f;          // of the gradient with respect to the normalised row
    float sum_times_x = 0.0f;  // of that times the normalised row
#pragma omp simd reduction(+ : sum, sum_times_x)
    for (Count c = 0; c < n; ++c) {
      const float dnorm = dyr[c] * w[c];
      sum += dnorm;
      sum_times_x += dnorm * (row[c] - m) * s;
    }
    sum /= static_cast<float>(n);
    sum_times_x /= static_cast<float>(n);
#pragma omp simd
    for (Count c = 0; c < n; ++c) dxr[c] += s * (dyr[c] * w[c] - sum - (row[c] - m) * s * sum_times_x);
  });
  for_column_chunks(exec, "cohort::layernorm_backward_weight", n, [=](Count begin, Count end) {
    for (Count r = 0; r < rows; ++r) {
      const float* row = xs + r * n;
      const float* dyr = dy + r * n;
      const float m = means[r];
      const float s = rstds[r];
#pragma omp simd
      for (Count c = begin; c < end; ++c) {
        dw[c] += dyr[c] * (row[c] - m) * s;
        db[c] += dyr[c];
      }
    }
  });
  if (dx_column_sums.defined()) bias_backward(exec, dx_column_sums, dx);
}

void rmsnorm_forward(const Exec& exec, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     float epsilon) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::rmsnorm_forward(exec, out, rstd, x, weight, epsilon);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return rmsnorm_forward(exec, fp32.out(out), rstd, fp32.in(x), fp32.in(weight), epsilon);
  }
  check_rows(x, out);
  const Count n = x.shape().columns();
  float* y = out.f32();
  float* rstds = rstd.f32();
  const float* xs = x.f32();
  const float* w = weight.f32();
  for_rows(exec, "cohort::rmsnorm_forward", x.shape().rows(), [=](Count r) {
    const float* row = xs + r * n;
    float* yr = y + r * n;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (Count c = 0; c < n; ++c) squares += row[c] * row[c];
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
#pragma omp simd
    for (Count c = 0; c < n; ++c) yr[c] = row[c] * scale * w[c];
    rstds[r] = scale;
  });
}

void rmsnorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                      const Tensor& weight, const Tensor& rstd, const Tensor& dx_column_sums) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::rmsnorm_backward(exec, dx, dweight, dout, x, weight, rstd, dx_column_sums);
  }
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return rmsnorm_backward(exec, fp32.inout(dx), dweight, fp32.in(dout), fp32.in(x), fp32.in(weight), rstd, dx_column_sums);
  }
  check_rows(x, dx);
  check_rows(x, dout);
  const Count rows = x.shape().rows();
  const Count n = x.shape().columns();
  float* dxs = dx.f32();
  float* dw = dweight.f32();
  const float* dy = dout.f32();
  const float* xs = x.f32();
  const float* w = weight.f32();
  const float* rstds = rstd.f32();
  for_rows(exec, "cohort::rmsnorm_backward_x", rows, [=](Count r) {
    const float* row = xs + r * n;
    const float* dyr = dy + r * n;
    float* dxr = dxs + r * n;
    const float s = rstds[r];
    float sum_times_x = 0.0f;
#pragma omp simd reduction(+ : sum_times_x)
    for (Count c = 0; c < n; ++c) sum_times_x += dyr[c] * w[c] * row[c] * s;
    sum_times_x /= static_cast<float>(n);
#pragma omp simd
    for (Count c = 0; c < n; ++c) dxr[c] += s * (dyr[c] * w[c] - row[c] * s * sum_times_x);
  });
  for_column_chunks(exec, "cohort::rmsnorm_backward_weight", n, [=](Count begin, Count end) {
    for (Count r = 0; r < rows; ++r) {
      const float* row = xs + r * n;
      const float* dyr = dy + r * n;
      const float s = rstds[r];
#pragma omp simd
      for (Count c = begin; c < end; ++c) dw[c] += dyr[c] * row[c] * s;
    }
  });
  if (dx_column_sums.defined()) bias_backward(exec, dx_column_sums, dx);
}

}  // namespace cohort::ops
