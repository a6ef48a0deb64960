#include "ops/fp8_linear.hpp"

#include "base/counting.hpp"
#include "base/error.hpp"
#include "ops/op_note.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

// By the kernel of the device. A thread that counts and writes no tape has none, and nothing to do.
template <class Kernel, class... Arguments>
void run(const char* op, Kernel kernel, const Exec& exec, const Arguments&... arguments) {
  if (kernel != nullptr) return kernel(exec, arguments...);
  COHORT_CHECK(counting(), "{}: products in 8 bits are for GPUs", op);
}

void check_copy(const Tensor& copy, Count rows, Count columns) {
  if (!copy.defined()) return;
  COHORT_CHECK(copy.dtype() == DType::u8 && copy.shape() == Shape({rows, columns}) && columns % kFp8Multiple == 0,
               "8 bits: a copy {} where [{}, {}] is to be, in rows of a multiple of {}", copy.shape().str(), rows, columns,
               kFp8Multiple);
}

OpWork forward_work(const Exec& exec, const Fp8Matrix& x, const Fp8Matrix& weight) {
  return product_work(exec, x.rows, x.rows.shape().rows(), weight.rows.shape()[0], x.rows.shape().columns());
}

OpWork input_work(const Exec& exec, const Fp8Matrix& dy, const Tensor& dx) {
  return product_work(exec, dy.rows, dy.rows.shape().rows(), dx.shape().columns(), dy.rows.shape().columns());
}

// The matrix is read twice, the second time to be rounded.
OpWork quantize_work(const Fp8Matrix& to, const Tensor& x) {
  Bytes bytes = 2 * x.bytes();
  for (const Tensor* copy : {&to.rows, &to.transposed}) bytes += copy->defined() ? copy->bytes() : 0;
  return traffic(x, bytes);
}

}  // namespace

void fp8_quantize(const Exec& exec, const Fp8Matrix& to, const Tensor& x) {
  const OpNote note("fp8_quantize", {&x}, {&to.rows, &to.transposed, &to.scale}, quantize_work(to, x));
  const Count rows = x.shape().rows(), columns = x.shape().columns();
  COHORT_CHECK(x.dtype() == DType::bf16, "8 bits of {}", name_of(x.dtype()));
  check_copy(to.rows, rows, columns);
  check_copy(to.transposed, columns, rows);
  run("fp8_quantize", tuned_kernels(exec).fp8_quantize, exec, to, x);
}

void fp8_linear_forward(const Exec& exec, const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias) {
  const OpNote note("fp8_linear_forward", {&x.rows, &weight.rows, &bias}, {&y}, forward_work(exec, x, weight));
  run("fp8_linear_forward", tuned_kernels(exec).fp8_linear_forward, exec, y, x, weight, bias);
}

void fp8_linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Fp8Matrix& x,
                                 const Fp8Matrix& weight, const Tensor& bias) {
  const OpNote note("fp8_linear_residual_forward", {&x.rows, &weight.rows, &bias, &residual}, {&y},
                    forward_work(exec, x, weight));
  run("fp8_linear_residual_forward", tuned_kernels(exec).fp8_linear_residual_forward, exec, y, residual, x, weight, bias);
}

void fp8_linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Fp8Matrix& x,
                             const Fp8Matrix& weight, const Tensor& bias) {
  const OpNote note("fp8_linear_gelu_forward", {&x.rows, &weight.rows, &bias}, {&before, &after}, forward_work(exec, x, weight));
  run("fp8_linear_gelu_forward", tuned_kernels(exec).fp8_linear_gelu_forward, exec, after, before, x, weight, bias);
}

void fp8_linear_backward_input(const Exec& exec, const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight) {
  const OpNote note("fp8_linear_backward_input", {&dy.rows, &weight.transposed}, {&dx}, input_work(exec, dy, dx));
  run("fp8_linear_backward_input", tuned_kernels(exec).fp8_linear_backward_input, exec, dx, dy, weight);
}

void fp8_linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Fp8Matrix& dy,
                              const Fp8Matrix& weight, const Tensor& before) {
  const OpNote note("fp8_linear_gelu_backward", {&dy.rows, &weight.transposed, &before}, {&dbefore, &dbias},
                    input_work(exec, dy, dbefore));
  run("fp8_linear_gelu_backward", tuned_kernels(exec).fp8_linear_gelu_backward, exec, dbefore, dbias, dy, weight, before);
}

void fp8_linear_backward_weight(const Exec& exec, const Tensor& dweight, const Fp8Matrix& dy, const Fp8Matrix& x) {
  const OpNote note(
      "fp8_linear_backward_weight", {&dy.transposed, &x.transposed, &dweight}, {&dweight},
      product_work(exec, x.transposed, dweight.shape()[0], dweight.shape().columns(), x.transposed.shape().columns()));
  run("fp8_linear_backward_weight", tuned_kernels(exec).fp8_linear_backward_weight, exec, dweight, dy, x);
}

}  // namespace cohort::ops
