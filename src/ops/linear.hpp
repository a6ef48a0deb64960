// Linear layers: matrix products with what surrounds them, so that a backend can do both at once. Weights are [N, K] (outputs,
// inputs), as PyTorch keeps them; x is [R, K], y and dy are [R, N].
//
// y, dy may have more columns than N: the rest of each row is padding, which forward leaves alone and backward does not read (for
// logits, whose rows then start at aligned addresses whatever the vocabulary). `bias` [N] may be undefined: none.
//
// With Exec::row_by_row the forward functions use ops/row_product.hpp. Portable: ops/product.hpp. Tuned on a CPU: ops/gemm.hpp
// and a pointwise pass; on a GPU: cuBLASLt, with the pointwise work in the product's epilogue (ops/cuda/gemm/gemm.hpp). Each
// moves (R K + N K + R N) elements for 2 R N K operations.
#pragma once

#include <filesystem>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// y = x W^T + bias.
void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// y = residual + x W^T + bias, the end of a residual branch. y may be residual.
void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias = {});

/// after = gelu(x W^T + bias) (tanh form, see activation.hpp). `before` [R, N] is what linear_gelu_backward needs; with or
/// without the bias, as the backend prefers.
void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias);

/// dx = dy W.
void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight);

/// Backward through y = W gelu(before + bias) down to `before`: dbefore = gelu'(before) * (dy W), and dbias += its column sums. W
/// is the weight of the layer after the GELU, `before` and `bias` are those of linear_gelu_forward.
void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor& bias);

/// dweight [N, K] (fp32) += dy^T x, and dbias [N] (fp32), if defined, += column sums of dy.
void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x);

/// GPU: from now on a product's first call times the algorithms that could do it and keeps the fastest; choices that `file` holds
/// for this card and library, if it exists, are taken without timing. Two algorithms need not agree in the last bit, so runs are
/// equal bit for bit only if they begin with the same file.
void start_gemm_tuning(const std::filesystem::path& file);
/// Writes all choices made so far to the file. One process at a time.
void save_gemm_tuning(const std::filesystem::path& file);

}  // namespace cohort::ops
