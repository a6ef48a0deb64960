// Pointwise non-linearities, fused with the bias that precedes them.
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// out = gelu(x + bias), gelu(z) = z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))): the tanh form of GPT-2 (Hendrycks & Gimpel
/// 2016). x, out [R, F]; bias [F]. Saves x (without the bias). Moves 8 R F bytes.
void gelu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias);

/// dx = dout * gelu'(x + bias), dbias += column sums of dx. dx may be dout. Moves 12 R F bytes.
void gelu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias);

/// out = max(0, x + bias). Backward as for gelu.
void relu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias);
void relu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias);

/// SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer"): out [R, F] = silu(gate) * up, where each row of x [R, 2F] holds the
/// gate's F values and then up's; silu(z) = z / (1 + exp(-z)). Saves x. Moves 12 R F bytes.
void swiglu_forward(const Exec& exec, const Tensor& out, const Tensor& x);

/// dx [R, 2F] = gradient with respect to x. Moves 20 R F bytes.
void swiglu_backward(const Exec& exec, const Tensor& dx, const Tensor& dout, const Tensor& x);

}  // namespace cohort::ops
