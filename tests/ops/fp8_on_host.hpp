// The ops of ops/fp8_linear.hpp on a CPU, for tests of what is built on them: by the double-precision references, and slow. The
// program itself has them on GPUs alone.
#pragma once

#include "ops/compare.hpp"
#include "ops/fp8_linear.hpp"
#include "ops/reference/activation.hpp"
#include "ops/reference/fp8.hpp"
#include "ops/reference/matmul.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops::on_host {

inline void quantize(const Exec&, const Fp8Matrix& to, const Tensor& x) {
  const Count rows = x.shape().rows(), columns = x.shape().columns();
  const Array values = values_of(x);
  float largest = 0.0f;
  for (const double value : values) {
    const auto size = static_cast<float>(std::abs(value));
    if (std::isnan(size) || size > largest) largest = size;
    if (std::isnan(largest)) break;
  }
  const float multiplier = fp8_multiplier(to.format, largest);
  to.scale.f32()[0] = 1.0f / multiplier;
  to.scale.f32()[1] = largest;
  for (Count i = 0; i < rows * columns; ++i) {
    const std::uint8_t code =
        reference::fp8_code(to.format, values[static_cast<std::size_t>(i)] * static_cast<double>(multiplier));
    if (to.rows.defined()) to.rows.data<std::uint8_t>()[i] = code;
    if (to.transposed.defined()) to.transposed.data<std::uint8_t>()[i % columns * rows + i / columns] = code;
  }
}

/// What the codes of a copy stand for.
inline Array numbers_of(const Fp8Matrix& matrix, const Tensor& copy) {
  const Tensor codes = copy.to_host(), scale = matrix.scale.to_host();
  Array numbers;
  for (const std::uint8_t code : codes.span<std::uint8_t>())
    numbers.push_back(static_cast<double>(scale.span<float>()[0]) * reference::fp8_value(matrix.format, code));
  return numbers;
}

/// a b^T of two copies.
inline Array product(const Fp8Matrix& a, const Tensor& a_copy, const Fp8Matrix& b, const Tensor& b_copy) {
  return reference::matmul(numbers_of(a, a_copy), false, numbers_of(b, b_copy), true, a_copy.shape()[0], b_copy.shape()[0],
                           a_copy.shape()[1]);
}

inline void put(const Tensor& to, Input values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (to.dtype() == DType::bf16) to.data<bf16>()[i] = to_bf16(value);
    if (to.dtype() == DType::f32) to.f32()[i] = value;
  }
}

inline Array with_bias(Array values, const Tensor& bias) {
  if (!bias.defined()) return values;
  const Array terms = values_of(bias);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += terms[i % terms.size()];
  return values;
}

inline void forward(const Exec&, const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias) {
  put(y, with_bias(product(x, x.rows, weight, weight.rows), bias));
}

inline void residual_forward(const Exec&, const Tensor& y, const Tensor& residual, const Fp8Matrix& x, const Fp8Matrix& weight,
                             const Tensor& bias) {
  put(y, sum(values_of(residual), with_bias(product(x, x.rows, weight, weight.rows), bias)));
}

inline void gelu_forward(const Exec&, const Tensor& after, const Tensor& before, const Fp8Matrix& x, const Fp8Matrix& weight,
                         const Tensor& bias) {
  Array values = with_bias(product(x, x.rows, weight, weight.rows), bias);
  put(before, values);
  for (double& value : values) value = reference::gelu(value);
  put(after, values);
}

inline void backward_input(const Exec&, const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight) {
  put(dx, product(dy, dy.rows, weight, weight.transposed));
}

inline void gelu_backward(const Exec&, const Tensor& dbefore, const Tensor& dbias, const Fp8Matrix& dy, const Fp8Matrix& weight,
                          const Tensor& before) {
  Array values = product(dy, dy.rows, weight, weight.transposed), sums = values_of(dbias);
  const Array z = values_of(before);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= reference::gelu_slope(z[i]);
    sums[i % sums.size()] += values[i];
  }
  put(dbefore, values);
  put(dbias, sums);
}

inline void backward_weight(const Exec&, const Tensor& dweight, const Fp8Matrix& dy, const Fp8Matrix& x) {
  put(dweight, sum(values_of(dweight), product(dy, dy.transposed, x, x.transposed)));
}

/// From now on CPUs have the ops. Nothing where the device under test is a GPU, which has its own.
inline void use() {
  if (test_device() == DeviceKind::gpu) return;
  use_own_kernels([](TunedKernels& kernels) {
    kernels.fp8_quantize = quantize;
    kernels.fp8_linear_forward = forward;
    kernels.fp8_linear_residual_forward = residual_forward;
    kernels.fp8_linear_gelu_forward = gelu_forward;
    kernels.fp8_linear_backward_input = backward_input;
    kernels.fp8_linear_gelu_backward = gelu_backward;
    kernels.fp8_linear_backward_weight = backward_weight;
  });
}

}  // namespace cohort::ops::on_host
