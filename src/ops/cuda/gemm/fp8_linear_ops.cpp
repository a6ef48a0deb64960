// The linear layers of ops/fp8_linear.hpp by cuBLASLt: each product reads the copies that lie along the dim that it sums over, a
// as it is and b transposed.
#include "base/error.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/fp8/fp8_quantize.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/cuda/ops.hpp"

namespace cohort::ops::cuda {
namespace {

Matrix matrix_of(const Tensor& tensor) {
  const Count columns = tensor.shape().columns();
  return {tensor.raw(), tensor.dtype(), tensor.shape().rows(), columns, columns};
}

Matrix codes_of(const Fp8Matrix& of, const Tensor& copy) {
  COHORT_CHECK(copy.defined(), "a product in 8 bits of a copy that was not made");
  Matrix view = matrix_of(copy);
  view.format = of.format;
  view.scale = of.scale.f32();
  return view;
}

GemmCall fp8_forward_call(const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias) {
  GemmCall call{.c = matrix_of(y), .a = codes_of(x, x.rows), .b = codes_of(weight, weight.rows), .transpose_b = true};
  call.fast_sums = true;
  if (!bias.defined()) return call;
  call.epilogue = Epilogue::bias;
  call.bias = bias.raw();
  return call;
}

GemmCall fp8_input_call(const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight) {
  return {.c = matrix_of(dx), .a = codes_of(dy, dy.rows), .b = codes_of(weight, weight.transposed), .transpose_b = true};
}

// `before` holds the bias.
void set_fp8_aux(GemmCall& call, Epilogue epilogue, const Tensor& before) {
  call.epilogue = epilogue;
  call.aux = before.raw();
  call.aux_stride = before.shape().columns();
}

}  // namespace

void fp8_quantize(const Exec&, const Fp8Matrix& to, const Tensor& x) {
  COHORT_CHECK(reinterpret_cast<std::uintptr_t>(x.raw()) % 16 == 0, "8 bits of a tensor that does not begin at 16 bytes: {}",
               x.shape().str());
  float* const scale = to.scale.f32();
  largest_size(gpu::compute_stream(), scale + 1, x.raw(), x.elements());
  quantize(gpu::compute_stream(), to.format, to.rows.raw(), to.transposed.raw(), scale, scale + 1, x.raw(), x.shape().rows(),
           x.shape().columns());
  gpu::check_launch("fp8_quantize");
}

void fp8_linear_forward(const Exec&, const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias) {
  gemm(fp8_forward_call(y, x, weight, bias), false);
}

void fp8_linear_residual_forward(const Exec&, const Tensor& y, const Tensor& residual, const Fp8Matrix& x,
                                 const Fp8Matrix& weight, const Tensor& bias) {
  GemmCall call = fp8_forward_call(y, x, weight, bias);
  call.beta = 1.0f;
  call.residual = matrix_of(residual);
  gemm(call, false);
}

void fp8_linear_gelu_forward(const Exec&, const Tensor& after, const Tensor& before, const Fp8Matrix& x, const Fp8Matrix& weight,
                             const Tensor& bias) {
  GemmCall call = fp8_forward_call(after, x, weight, bias);
  set_fp8_aux(call, Epilogue::gelu_aux_bias, before);
  gemm(call, false);
}

void fp8_linear_backward_input(const Exec&, const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight) {
  gemm(fp8_input_call(dx, dy, weight), false);
}

void fp8_linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Fp8Matrix& dy,
                              const Fp8Matrix& weight, const Tensor& before) {
  GemmCall call = fp8_input_call(dbefore, dy, weight);
  set_fp8_aux(call, Epilogue::dgelu, before);
  gemm(call, false);
  cuda::bias_backward(exec, dbias, dbefore);
}

void fp8_linear_backward_weight(const Exec&, const Tensor& dweight, const Fp8Matrix& dy, const Fp8Matrix& x) {
  gemm({.c = matrix_of(dweight),
        .a = codes_of(dy, dy.transposed),
        .b = codes_of(x, x.transposed),
        .transpose_b = true,
        .beta = 1.0f},
       false);
}

}  // namespace cohort::ops::cuda
