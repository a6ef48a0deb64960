// The linear layers of ops/linear.hpp by matrix products (ops/gemm.hpp), which know fp32 alone.
#include "ops/cpu/fp32_copies.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/gemm.hpp"
#include "ops/pointwise.hpp"

namespace cohort::ops::cpu {
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

const float* data_of(const Tensor& bias, const Tensor& weight) {
  if (!bias.defined()) return nullptr;
  COHORT_CHECK(bias.elements() == weight.shape()[0], "linear: a bias {} for weight {}", bias.shape().str(), weight.shape().str());
  return bias.f32();
}

}  // namespace

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (is_narrow(y)) {
    Fp32Copies fp32;
    return cpu::linear_forward(exec, fp32.inout(y), fp32.in(x), fp32.in(weight), fp32.in(bias));  // inout: keeps the padding
  }
  if (bias.defined()) check_unpadded(y, weight);
  const MatrixView product = first_columns(y, weight.shape()[0]);
  if (fused_gemm(product, as_matrix(x), as_matrix(weight), Transpose::yes, {}, data_of(bias, weight))) return;
  gemm(exec, product, as_matrix(x), Transpose::no, as_matrix(weight), Transpose::yes);
  if (bias.defined()) add_bias(exec, y, bias);
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  if (is_narrow(y)) {
    Fp32Copies fp32;
    return cpu::linear_residual_forward(exec, fp32.out(y), fp32.in(residual), fp32.in(x), fp32.in(weight), fp32.in(bias));
  }
  check_unpadded(y, weight);
  if (fused_gemm(as_matrix(y), as_matrix(x), as_matrix(weight), Transpose::yes, as_matrix(residual), data_of(bias, weight)))
    return;
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

void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return cpu::linear_backward_input(exec, fp32.out(dx), fp32.in(dy), fp32.in(weight));
  }
  gemm(exec, as_matrix(dx), first_columns(dy, weight.shape()[0]), Transpose::no, as_matrix(weight), Transpose::no);
}

void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  if (is_narrow(x)) {
    Fp32Copies fp32;
    return cpu::linear_backward_weight(exec, dweight, dbias, fp32.in(dy), fp32.in(x));
  }
  const Count outputs = dweight.shape()[0];
  gemm(exec, as_matrix(dweight), first_columns(dy, outputs), Transpose::yes, as_matrix(x), Transpose::no, 1.0f, 1.0f);
  if (dbias.defined()) bias_backward(exec, dbias, dy);
}

}  // namespace cohort::ops::cpu
