// The linear layers of ops/linear.hpp by cuBLASLt.
#include "base/error.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/cuda/ops.hpp"

namespace cohort::ops::cuda {
namespace {

Matrix matrix(const Tensor& tensor) {
  const Count columns = tensor.shape().columns();
  return {tensor.raw(), tensor.dtype(), tensor.shape().rows(), columns, columns};
}

// The first `columns` columns: rows of y and dy may be padded.
Matrix first_columns(const Tensor& tensor, Count columns) {
  Matrix view = matrix(tensor);
  COHORT_CHECK(view.columns >= columns, "linear: {} for {} columns", tensor.shape().str(), columns);
  view.columns = columns;
  return view;
}

// y = x W^T, without an epilogue yet.
GemmCall forward_call(const Tensor& y, const Tensor& x, const Tensor& weight) {
  return {.c = first_columns(y, weight.shape()[0]), .a = matrix(x), .b = matrix(weight), .transpose_b = true};
}

void add_bias_epilogue(GemmCall& call, const Tensor& bias) {
  if (!bias.defined()) return;
  call.epilogue = Epilogue::bias;
  call.bias = bias.raw();
}

}  // namespace

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  GemmCall call = forward_call(y, x, weight);
  add_bias_epilogue(call, bias);
  gemm(call, exec.tf32);
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  GemmCall call = forward_call(y, x, weight);
  add_bias_epilogue(call, bias);
  call.beta = 1.0f;
  call.residual = matrix(residual);
  gemm(call, exec.tf32);
}

void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  GemmCall call = forward_call(after, x, weight);
  call.epilogue = Epilogue::gelu_aux_bias;
  call.bias = bias.raw();
  call.aux = before.raw();
  call.aux_stride = before.shape().columns();
  gemm(call, exec.tf32);
}

void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  gemm({.c = matrix(dx), .a = first_columns(dy, weight.shape()[0]), .b = matrix(weight)}, exec.tf32);
}

void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor&) {
  GemmCall call{.c = matrix(dbefore), .a = matrix(dy), .b = matrix(weight)};
  call.epilogue = Epilogue::dgelu;  // `before` holds the bias already
  call.aux = before.raw();
  call.aux_stride = before.shape().columns();
  gemm(call, exec.tf32);
  cuda::bias_backward(exec, dbias, dbefore);
}

void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  const GemmCall call{
      .c = matrix(dweight), .a = first_columns(dy, dweight.shape()[0]), .transpose_a = true, .b = matrix(x), .beta = 1.0f};
  gemm(call, exec.tf32);
  if (dbias.defined()) cuda::bias_backward(exec, dbias, dy);
}

}  // namespace cohort::ops::cuda
