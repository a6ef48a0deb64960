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
namespace {

OpWork forward_work(const Exec& exec, const Tensor& x, const Tensor& weight) {
  return product_work(exec, x, x.shape().rows(), weight.shape()[0], x.shape().columns());
}

OpWork input_work(const Exec& exec, const Tensor& dy, const Tensor& weight) {
  return product_work(exec, dy, dy.shape().rows(), weight.shape().columns(), weight.shape()[0]);
}

// The sums of a bias are timed with the product: it takes less without them.
OpWork weight_work(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& x) {
  OpWork work = product_work(exec, x, dweight.shape()[0], dweight.shape().columns(), x.shape().rows());
  if (!dbias.defined()) work.op = "linear_backward_weight_alone";
  return work;
}

// A product and its GELU are one kernel on GPUs alone.
std::optional<OpWork> if_fused(const Exec& exec, const OpWork& work) { return exec.gpu() ? std::optional(work) : std::nullopt; }

}  // namespace

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const OpNote note("linear_forward", {&x, &weight, &bias}, {&y}, forward_work(exec, x, weight));
  if (exec.row_by_row) return row_product(exec, y, x, weight, {}, bias);
  if (const auto kernel = tuned_kernels(exec).linear_forward) return kernel(exec, y, x, weight, bias);
  portable_product(exec, strided(y, weight.shape()[0]), strided(x), strided(weight).transposed(), 0.0f, {}, bias);
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  const OpNote note("linear_residual_forward", {&x, &weight, &bias, &residual}, {&y}, forward_work(exec, x, weight));
  if (exec.row_by_row) return row_product(exec, y, x, weight, residual, bias);
  if (const auto kernel = tuned_kernels(exec).linear_residual_forward) return kernel(exec, y, residual, x, weight, bias);
  portable_product(exec, strided(y), strided(x), strided(weight).transposed(), 0.0f, residual, bias);
}

void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  const OpNote note("linear_gelu_forward", {&x, &weight, &bias}, {&before, &after},
                    if_fused(exec, forward_work(exec, x, weight)));
  if (const auto kernel = tuned_kernels(exec).linear_gelu_forward; kernel && !exec.row_by_row)
    return kernel(exec, after, before, x, weight, bias);
  linear_forward(exec, before, x, weight);
  gelu_forward(exec, after, before, bias);
}

void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  const OpNote note("linear_backward_input", {&dy, &weight}, {&dx}, input_work(exec, dy, weight));
  if (const auto kernel = tuned_kernels(exec).linear_backward_input) return kernel(exec, dx, dy, weight);
  portable_product(exec, strided(dx), strided(dy, weight.shape()[0]), strided(weight));
}

void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor& bias) {
  const OpNote note("linear_gelu_backward", {&dy, &weight, &before, &bias}, {&dbefore, &dbias},
                    if_fused(exec, input_work(exec, dy, weight)));
  if (const auto kernel = tuned_kernels(exec).linear_gelu_backward) return kernel(exec, dbefore, dbias, dy, weight, before, bias);
  linear_backward_input(exec, dbefore, dy, weight);
  gelu_backward(exec, dbefore, dbias, dbefore, before, bias);
}

void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  const OpNote note("linear_backward_weight", {&dy, &x, &dweight}, {&dweight, &dbias}, weight_work(exec, dweight, dbias, x));
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
