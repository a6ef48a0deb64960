// The tuned kernels of CPUs, with the names and contracts of the ops in src/ops/*.hpp: matrix products by a library
// (ops/gemm.hpp), attention made of them, and the product of few rows. All but the last know only fp32; 16-bit tensors are
// widened for them (fp32_copies.hpp). ops/tuned.cpp names them.
#pragma once

#include "ops/attention.hpp"
#include "ops/linear.hpp"
#include "ops/partial_attention.hpp"
#include "ops/row_product.hpp"

namespace cohort::ops::cpu {

// linear.hpp
void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias);
void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight);
void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x);

// row_product.hpp
void row_product(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual,
                 const Tensor& bias);

// attention.hpp
Bytes attention_scratch_bytes(const AttentionShape& shape, DType dtype);
void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key);
void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key);

// partial_attention.hpp
Bytes partial_attention_scratch_bytes(const PartialAttention& block, DType dtype);
void partial_attention_forward(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                               const Tensor& q, const Tensor& kv, const Tensor& scratch, const DropoutKey& dropout_key);
void partial_attention_backward(const Exec& exec, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor& scratch, const DropoutKey& dropout_key);

}  // namespace cohort::ops::cpu
