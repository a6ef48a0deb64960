// Tensors rounded to 8 bits in memory of the arena, for the products of linear layers (ops/fp8_linear.hpp).
#pragma once

#include "nn/context.hpp"
#include "ops/fp8_linear.hpp"

namespace cohort {

/// Which copies of a matrix.
enum class Copies : std::uint8_t { rows, transposed, both };

/// x [R, C] (bf16). Valid until the arena is rewound.
inline ops::Fp8Matrix rounded(const StepContext& context, const Tensor& x, ops::Fp8 format, Copies copies) {
  const Count rows = x.shape().rows(), columns = x.shape().columns();
  ops::Fp8Matrix to{.format = format, .scale = context.take_fp32({2})};
  if (copies != Copies::transposed) to.rows = context.activations->take({rows, columns}, DType::u8);
  if (copies != Copies::rows) to.transposed = context.activations->take({columns, rows}, DType::u8);
  ops::fp8_quantize(context.exec, to, x);
  return to;
}

}  // namespace cohort
