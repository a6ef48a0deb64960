// The ops of src/ops/*.hpp on a GPU: the same names and contracts, in tensors. Each puts its kernels on the compute stream and
// returns. They are defined only in builds with CUDA. ops/tuned.cpp names them.
#pragma once

#include <cstdint>
#include <span>

#include "ops/adamw.hpp"
#include "ops/attention_shape.hpp"
#include "ops/cached_attention.hpp"
#include "ops/exec.hpp"
#include "ops/fp8_linear.hpp"
#include "ops/partial_attention.hpp"
#include "ops/pointwise.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops::cuda {

// linear.hpp
void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias);
void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias);
void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight);
void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor& bias);
void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x);

// fp8_linear.hpp
void fp8_quantize(const Exec& exec, const Fp8Matrix& to, const Tensor& x);
void fp8_linear_forward(const Exec& exec, const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias);
void fp8_linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Fp8Matrix& x,
                                 const Fp8Matrix& weight, const Tensor& bias);
void fp8_linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Fp8Matrix& x,
                             const Fp8Matrix& weight, const Tensor& bias);
void fp8_linear_backward_input(const Exec& exec, const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight);
void fp8_linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Fp8Matrix& dy,
                              const Fp8Matrix& weight, const Tensor& before);
void fp8_linear_backward_weight(const Exec& exec, const Tensor& dweight, const Fp8Matrix& dy, const Fp8Matrix& x);

// row_product.hpp
void row_product(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual,
                 const Tensor& bias);

// cached_attention.hpp
void cached_attention(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& qkv,
                      const CachedHeads& cache, const CachePlaces& places, const Tensor& scratch);

// norm.hpp
void layernorm_forward(const Exec& exec, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon);
void layernorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                        const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd);
void rmsnorm_forward(const Exec& exec, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     float epsilon);
void rmsnorm_backward(const Exec& exec, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                      const Tensor& weight, const Tensor& rstd);

// activation.hpp
void gelu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias);
void gelu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias);
void relu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias);
void relu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias);
void swiglu_forward(const Exec& exec, const Tensor& out, const Tensor& x);
void swiglu_backward(const Exec& exec, const Tensor& dx, const Tensor& dout, const Tensor& x);

// pointwise.hpp
void bias_backward(const Exec& exec, const Tensor& dbias, const Tensor& dx);

// attention.hpp; forward does not use the scratch
Bytes attention_scratch_bytes(const AttentionShape& shape, DType dtype);
void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key);
void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key);

// partial_attention.hpp; forward does not use the scratch
Bytes partial_attention_scratch_bytes(const PartialAttention& block, DType dtype);
void partial_attention_forward(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                               const Tensor& q, const Tensor& kv, const Tensor& scratch, const DropoutKey& dropout_key);
void partial_attention_backward(const Exec& exec, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor& scratch, const DropoutKey& dropout_key);
void attention_merge(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                     const Tensor& part_out, const Tensor& part_lse);

// attention.hpp
void rope_forward(const Exec& exec, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines, const Tensor& sines);
void rope_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& cosines, const Tensor& sines);

// embedding.hpp
void embedding_forward(const Exec& exec, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& token_table,
                       const Tensor& position_table);
void embedding_backward(const Exec& exec, const Tensor& dtoken_table, const Tensor& dposition_table,
                        std::span<const std::int32_t> tokens, const Tensor& dout);

// cross_entropy.hpp
void cross_entropy_forward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                           std::span<const std::int32_t> targets);
void cross_entropy_forward_backward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                    std::span<const std::int32_t> targets, float scale);

// adamw.hpp
void adamw(const Exec& exec, const AdamWTensors& tensors, const Tensor& ranges, const AdamWStep& step, const Tensor& scalars);
void sum_of_squares(const Exec& exec, const Tensor& sum, const Tensor& x);

}  // namespace cohort::ops::cuda
