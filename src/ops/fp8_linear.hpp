// The products of linear layers (ops/linear.hpp) with operands in 8 bits: e4m3 in forward, e4m3 and e5m2 in backward, after
// Micikevicius et al. 2022, "FP8 Formats for Deep Learning". ops/fp8.hpp has the formats and how tensors are scaled.
//
// Shapes as in ops/linear.hpp: x [R, K], weight [N, K], y [R, N]; y, biases, dx and what fuses with a product are bf16, gradients
// of parameters fp32. N and K are multiples of 16, and R too in backward. No operand has padding.
//
// On Hopper both operands of such a product lie along the dim that is summed over ("TN" in cuBLASLt), so each product reads its
// own copies:
//   forward          y  = x W^T      x.rows         weight.rows
//   backward, input  dx = dy W       dy.rows        weight.transposed
//   backward, weight dW = dy^T x     dy.transposed  x.transposed
// Sums are fp32. In forward the tensor cores keep their own sums, which hold fewer bits (cuBLASLt's fast accumulation); in
// backward they are added to fp32 ones every few terms.
//
// Only GPUs of compute capability 8.9 and newer have such products: there is no portable rung. reference/fp8.hpp is to be read.
#pragma once

#include "ops/exec.hpp"
#include "ops/fp8.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// A matrix [R, C] in 8 bits: element (i, j) is *scale times the number that the code (i, j) stands for. Either copy may be
/// undefined: it is not made then.
struct Fp8Matrix {
  Fp8 format = Fp8::e4m3;
  Tensor rows = {};        // u8 [R, C]
  Tensor transposed = {};  // u8 [C, R]
  Tensor scale = {};       // fp32 [2]: the scale, a power of two; and the largest size of an element, which it follows from
};

/// to = x [R, C] (bf16), rounded to nearest even. C is a multiple of 16, for a transposed copy R too. Moves 2 R C bytes to find
/// the largest element, and 2 R C + R C for each copy. One element that is infinite or NaN makes all of `to` NaN.
void fp8_quantize(const Exec& exec, const Fp8Matrix& to, const Tensor& x);

/// y = x W^T + bias.
void fp8_linear_forward(const Exec& exec, const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias = {});

/// y = residual + x W^T + bias. y may be residual.
void fp8_linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Fp8Matrix& x,
                                 const Fp8Matrix& weight, const Tensor& bias = {});

/// As linear_gelu_forward: after = gelu(x W^T + bias), `before` = x W^T + bias.
void fp8_linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Fp8Matrix& x,
                             const Fp8Matrix& weight, const Tensor& bias);

/// dx = dy W.
void fp8_linear_backward_input(const Exec& exec, const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight);

/// As linear_gelu_backward, of a `before` with the bias: dbefore = gelu'(before) * (dy W), dbias += its column sums.
void fp8_linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Fp8Matrix& dy,
                              const Fp8Matrix& weight, const Tensor& before);

/// dweight [N, K] (fp32) += dy^T x.
void fp8_linear_backward_weight(const Exec& exec, const Tensor& dweight, const Fp8Matrix& dy, const Fp8Matrix& x);

}  // namespace cohort::ops
