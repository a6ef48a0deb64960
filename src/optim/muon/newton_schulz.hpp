// The nearest orthogonal matrix, nearly: of G = U S V^T, whose singular values S Muon takes away (Jordan et al. 2024, "Muon: An
// optimizer for hidden layers in neural networks").
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::muon {

/// X <- a X + b (X X^T) X + c (X X^T)^2 X maps each singular value s to a s + b s^3 + c s^5. The coefficients are chosen to lift
/// small ones fast (by a = 3.4445 a step), not to converge: after five steps they lie between about 0.7 and 1.2, if before they
/// were above a few 1e-3 of the norm.
inline constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

/// In place, of matrix [rows, columns] fp32: divided by its Frobenius norm, so that no singular value is above 1, then `steps`
/// iterations; of its transpose, if it has more rows than columns, so that X X^T is the smaller one. Zeros stay zeros. The
/// products are those of linear layers (ops/linear.hpp), in fp32 on a CPU and in bf16 on a GPU, whose rounding of 2^-8 the
/// iteration forgives: it needs directions, not digits. `scratch` [scratch_bytes()] u8.
void orthogonalize(const ops::Exec& exec, const Tensor& matrix, const Tensor& scratch, Count steps);

Bytes scratch_bytes(Count rows, Count columns, DeviceKind device);

}  // namespace cohort::muon
