#include "ops/linear.hpp"

#include "ops/activation.hpp"
#include "ops/cuda/gemm.hpp"
#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/gemm.hpp"
#include "ops/pointwise.hpp"

namespace cohort::ops {
namespace {

// The first `columns` columns: y and dy may be padded.
MatrixView first_columns(const Tensor& tensor, Count columns) {
  MatrixView view = as_matrix(tensor);
  COHORT_CHECK(view.columns >= columns, "linear: {} for {} columns", tensor.shape().str(), columns);
  view.columns = columns;
  return view;
}

void check_unpadded(const Tensor& y, const Tensor& weight) {
  COHORT_CHECK(y.shape().columns() == weight.shape()[0], "linear: {} from weight {}", y.shape().str(), weight.shape().str());
}

}  // namespace

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::linear_forward(exec, y, x, weight, bias);
  }
  if (is_narrow(y)) {
    Fp32Copies fp32;
    return linear_forward(exec, fp32.inout(y), fp32.in(x), fp32.in(weight), fp32.in(bias));  // inout: keeps the padding
  }
  gemm(exec, first_columns(y, weight.shape()[0]), as_matrix(x), Transpose::no, as_matrix(weight), Transpose::yes);
  if (!bias.defined()) return;
  check_unpadded(y, weight);
  add_bias(exec, y, bias);
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::linear_residual_forward(exec, y, residual, x, weight, bias);
  }
  if (is_narrow(y)) {
    Fp32Copies fp32;
    return linear_residual_forward(exec, fp32.out(y), fp32.in(residual), fp32.in(x), fp32.in(weight), fp32.in(bias));
  }
  check_unpadded(y, weight);
  if (y.raw() == residual.raw()) {
    gemm(exec, as_matrix(y), as_matrix(x), Transpose::no, as_matrix(weight), Transpose::yes, 1.0f, 1.0f);
    if (bias.defined()) add_bias(exec, y, bias);
    return;
  }
  gemm(exec, as_matrix(y), as_matrix(x), Transpose::no, as_matrix(weight), Transpose::yes);
  if (bias.defined()) {
    add_residual(exec, y, residual, y, bias);
  } else {
    add(exec, y, residual, y);
  }
}

void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::linear_gelu_forward(exec, after, before, x, weight, bias);
  }
  linear_forward(exec, before, x, weight);
  gelu_forward(exec, after, before, bias);
}

void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::linear_backward_input(exec, dx, dy, weight);
  }
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return linear_backward_input(exec, fp32.out(dx), fp32.in(dy), fp32.in(weight));
  }
  gemm(exec, as_matrix(dx), first_columns(dy, weight.shape()[0]), Transpose::no, as_matrix(weight), Transpose::no);
}

void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::linear_gelu_backward(exec, dbefore, dbias, dy, weight, before, bias);
  }
  linear_backward_input(exec, dbefore, dy, weight);
  gelu_backward(exec, dbefore, dbias, dbefore, before, bias);
}

void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::linear_backward_weight(exec, dweight, dbias, dy, x);
  }
  if (is_narrow(x)) {
    Fp32Copies fp32;
    return linear_backward_weight(exec, dweight, dbias, fp32.in(dy), fp32.in(x));
  }
  const Count outputs = dweight.shape()[0];
  gemm(exec, as_matrix(dweight), first_columns(dy, outputs), Transpose::yes, as_matrix(x), Transpose::no, 1.0f, 1.0f);
  if (dbias.defined()) bias_backward(exec, dbias, dy);
}

void start_gemm_tuning([[maybe_unused]] const std::filesystem::path& file) {
  if constexpr (kCudaBuilt) {
    if (std::filesystem::exists(file)) cuda::load_gemm_tuning(file);
    cuda::set_gemm_tuning(true);
  }
}

void save_gemm_tuning([[maybe_unused]] const std::filesystem::path& file) {
  if constexpr (kCudaBuilt) cuda::save_gemm_tuning(file);
}

}  // namespace cohort::ops
