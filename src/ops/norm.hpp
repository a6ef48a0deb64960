// Layer normalisation (Ba et al. 2016) and RMS normalisation (Zhang & Sennrich 2019), over the last dim of x [R, C].
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// out = (x - mean) * rstd * weight + bias, with rstd = 1 / sqrt(variance + epsilon) and the biased variance of each row.
/// x, out [R, C]; weight, bias [C]; saves mean, rstd [R] for backward. Moves 8 R C bytes.
void layernorm_forward(const Exec& exec, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon);

/// dx [R, C] += gradient with respect to x; dweight, dbias [C] are accumulated. dx is added to, not overwritten, since x also
/// feeds the residual stream whose gradient dx already holds. Moves 16 R C bytes.
void layernorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                        const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd);

/// out = x * rstd * weight, with rstd = 1 / sqrt(mean(x^2) + epsilon). Saves rstd [R].
void rmsnorm_forward(const Exec& exec, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     float epsilon);

/// As layernorm_backward: dx and dweight are added to.
void rmsnorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                      const Tensor& weight, const Tensor& rstd);

}  // namespace cohort::ops
