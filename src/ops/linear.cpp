#include "ops/linear.hpp"

#include <filesystem>

#include "ops/activation.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/op_note.hpp"
#include "ops/pointwise.hpp"
#include "ops/product.hpp"
#include "ops/row_product.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const OpNote note("linear", {&x, &weight, &bias}, {&y});
  if (exec.row_by_row) return row_product(exec, y, x, weight, {}, bias);
  if (const auto kernel = tuned_kernels(exec).linear_forward) return kernel(exec, y, x, weight, bias);
  portable_product(exec, strided(y, weight.shape()[0]), strided(x), strided(weight).transposed(), 0.0f, {}, bias);
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  const OpNote note("linear_residual", {&x, &weight, &bias, &residual}, {&y});
  if (exec.row_by_row) return row_product(exec, y, x, weight, residual, bias);
  if (const auto kernel = tuned_kernels(exec).linear_residual_forward) return kernel(exec, y, residual, x, weight, bias);
  portable_product(exec, strided(y), strided(x), strided(weight).transposed(), 0.0f, residual, bias);
}

void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  const OpNote note("linear_gelu", {&x, &weight, &bias}, {&before, &after});
  if (const auto kernel = tuned_kernels(exec).linear_gelu_forward; kernel && !exec.row_by_row)
    return kernel(exec, after, before, x, weight, bias);
  linear_forward(exec, before, x, weight);
  gelu_forward(exec, after, before, bias);
}

void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  const OpNote note("linear_backward_input", {&dy, &weight}, {&dx});
  if (const auto kernel = tuned_kernels(exec).linear_backward_input) return kernel(exec, dx, dy, weight);
  portable_product(exec, strided(dx), strided(dy, weight.shape()[0]), strided(weight));
}

void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor& bias) {
  const OpNote note("linear_gelu_backward", {&dy, &weight, &before, &bias}, {&dbefore, &dbias});
  if (const auto kernel = tuned_kernels(exec).linear_gelu_backward) return kernel(exec, dbefore, dbias, dy, weight, before, bias);
  linear_backward_input(exec, dbefore, dy, weight);
  gelu_backward(exec, dbefore, dbias, dbefore, before, bias);
}

void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  const OpNote note("linear_backward_weight", {&dy, &x}, {&dweight, &dbias});
  if (const auto kernel = tuned_kernels(exec).linear_backward_weight) return kernel(exec, dweight, dbias, dy, x);
  portable_product(exec, strided(dweight), strided(dy, dweight.shape()[0]).transposed(), strided(x), 1.0f);
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
