// Causal self-attention with grouped-query heads (Vaswani et al. 2017; Ainslie et al. 2023), and rotary positions (Su et al.
// 2021).
//
// The packed activation qkv [B, T, (NH + 2 NKV) HS] holds in each row the query heads, then the key heads, then the value heads.
// Query head h reads key/value head h / (NH / NKV).
//
// With shape.first_keys a token sees only the tokens of its own document, and kernels skip the tiles of keys before it: packed
// documents then cost less than one document of the same tokens.
#pragma once

#include "ops/attention_shape.hpp"
#include "ops/exec.hpp"
#include "ops/pointwise.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// Bytes of scratch memory that forward and backward need, never T x T for all heads. CPU: two tiles of one head and its keys and
/// values. GPU: what the kernel for this shape and type keeps for each row.
Bytes attention_scratch_bytes(const Exec& exec, const AttentionShape& shape, DType dtype);

/// out [B, T, NH HS] = softmax(q k^T / sqrt(HS), causal) v, head by head in blocks of query rows; blocks above the diagonal, and
/// those of other documents, are skipped. Saves lse [B, NH, T] (fp32), the logarithm of each row's softmax denominator (as in
/// FlashAttention-2, Dao 2023). `scratch` (u8) holds attention_scratch_bytes. Dropout, if any, acts on the softmax weights; an
/// element's index in its sample is (head * T + query) * T + key, with the head counted in the whole model.
void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key = {});

/// dqkv = gradient with respect to qkv; the weights are recomputed from qkv and lse. `out` is what forward wrote.
void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key = {});

/// Rotates the query and key heads of qkv in place, pairing element i with i + HS/2 (the "rotate half" form of Llama):
/// (a, b) -> (a cos - b sin, b cos + a sin) with angle t * theta^(-2 i / HS) for the token at position t of its sample.
void rope_forward(const Exec& exec, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines, const Tensor& sines);
/// The inverse rotation, on dqkv in place.
void rope_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& cosines, const Tensor& sines);

enum class RopeScaling {
  none,
  linear,  // all pairs turn more slowly, by the factor: position interpolation (Chen et al. 2023)
  llama3   // only pairs that turn less than once in the original context do (Llama Team 2024, section 3.4.3 and their code)
};

/// How fast rotary pairs turn.
struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;  // how many times longer samples may be than those of the first training
  // Of llama3: pairs that turn at most `low` times in the original context slow down by the factor, those that turn at least
  // `high` times keep their speed, and those between them are in between.
  double low = 1.0, high = 4.0;
  Count original_context = 8192;  // tokens
};

/// Fills the tables cosines, sines [T, HS/2] (fp32, on the host), computed in double precision. Without scaling pair i has at
/// position t the angle t * theta^(-2 i / HS).
void rope_tables(const Tensor& cosines, const Tensor& sines, const RopeSpec& spec);

}  // namespace cohort::ops
