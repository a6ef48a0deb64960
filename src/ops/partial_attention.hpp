// Attention of some tokens of a sequence to some others: what a rank computes that holds a part of the sequence, when the keys
// and values of another part come by. The results over several blocks of keys merge into those over all of them, and the
// gradients of the blocks add up (Liu et al. 2023, "Ring Attention with Blockwise Transformers"; Dao 2023, "FlashAttention-2",
// section 2.3).
//
// Activations hold R rows of each sample here, and K rows of keys and values; a block takes the runs block.queries and block.keys
// of them. A token sees itself and those before it, by their positions in the whole sequence.
//   q    [B, R, >= NH HS]   each row begins with the query heads; what follows is not read (so the packed qkv will do)
//   kv   [B, K, 2 NKV HS]   key heads, then value heads; query head h reads key/value head h / (NH / NKV)
//   out  [B, R, NH HS]      lse [B, NH, R]
// Partial results and the gradients that are added up are fp32, so that however many blocks there are, nothing is rounded to 16
// bits before the end; q, kv, dout and the final out are of the type of the activations.
#pragma once

#include "ops/attention_shape.hpp"
#include "ops/exec.hpp"
#include "ops/pointwise.hpp"
#include "ops/token_rows.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

struct PartialAttention {
  AttentionShape sequence;  // of whole samples: `tokens` is T
  TokenRun queries;
  TokenRun keys;
};

/// How many pairs (query, key) there are of which the query sees the key: the work of the block.
Count visible_pairs(const TokenRun& queries, const TokenRun& keys);

/// Bytes of scratch memory that forward and backward need. CPU: two tiles of one head and its keys and values. GPU: what the
/// kernel for this block and type of activations keeps for each query.
Bytes partial_attention_scratch_bytes(const Exec& exec, const PartialAttention& block, DType dtype);

/// Of the block's queries: out (fp32) = softmax(q k^T / sqrt(HS)) v over those of the block's keys that are visible, and lse, the
/// logarithm of the softmax's denominator; other rows stay as they are. A query that sees none gets out = 0 and lse = -infinity.
/// `scratch` (u8) holds partial_attention_scratch_bytes. Dropout acts on the softmax weights, each element with the factor that
/// it has in the undivided sequence: its index is (head * T + query) * T + key in positions, with the head counted in the whole
/// model; key.rows is not used. On a GPU the softmax weights are rounded to the type of q before they meet the values, and head
/// sizes and types are those of whole attention (Error(config) for others).
void partial_attention_forward(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                               const Tensor& q, const Tensor& kv, const Tensor& scratch, const DropoutKey& dropout_key = {});

/// Takes one more block of keys into a result, for the block's queries:
/// with w = exp(lse - lse') and w_part = exp(part_lse - lse'),
///   out <- w out + w_part part_out,   lse <- lse' = log(exp(lse) + exp(part_lse)).
/// All fp32. Merging with nothing (lse = -infinity) changes nothing, on either side. The bits depend on the order of merging.
void attention_merge(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                     const Tensor& part_out, const Tensor& part_lse);

/// What the block adds to the gradients of the whole: dq [B, R, NH HS] += and dkv [B, K, 2 NKV HS] +=, both fp32. `out` and `lse`
/// are the final ones, merged over all keys; dout is the gradient of that out.
void partial_attention_backward(const Exec& exec, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor& scratch, const DropoutKey& dropout_key = {});

}  // namespace cohort::ops
