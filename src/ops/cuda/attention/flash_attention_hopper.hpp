// Causal self-attention on Hopper GPUs (compute capability 9.0), the fast rung above flash_attention.hpp: bf16 and fp16, head
// sizes 64 and 128, no dropout. After FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608): asynchronous copies and matrix
// products with one warpgroup that loads and two or three that compute, and the softmax of one block of keys beside the products
// of the next.
//
// Data as there: qkv [B, T, (NH + 2 NKV) HS] holds in each row the query heads, then the key heads, then the value heads; query
// head h reads key/value head h / (NH / NKV). out and dout are [B, T, NH HS], lse [B, NH, T] is fp32. All are device pointers,
// aligned to 16 bytes.
//
// A block of attention over a divided sequence is served by the same kernels, if it is a diagonal one or all its queries see all
// its keys.
//
// Sums are in fp32; softmax weights and score gradients are rounded to the 16-bit type before they meet values, keys and queries.
// Launchers only enqueue: no synchronisation, no device allocation; launch errors are left for the caller's cudaGetLastError.
// They throw if the driver cannot make a tensor map. Same input, same bits: each result is summed in one order.
#pragma once

#include "base/dtype.hpp"
#include "ops/cuda/attention/flash_attention.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// Whether the launchers take this problem: bf16 or fp16, HS 64 or 128, NH a multiple of NKV, any B and T. That the device is of
/// compute capability 9.0 is for the caller to check.
bool flash_attention_hopper_supports(DType dtype, const AttentionShape& shape);

/// The same for a block.
bool flash_partial_attention_hopper_supports(DType dtype, const FlashBlock& block);

/// Bytes of scratch that backward needs: for each row of each head two floats, or 67 with HS 64 and 2,048 tokens or more.
Bytes flash_attention_hopper_scratch_bytes(const AttentionShape& shape);
/// The same of a block; `shape` is that of its queries.
Bytes flash_partial_attention_hopper_scratch_bytes(const AttentionShape& shape);

/// out = softmax(q k^T / sqrt(HS), causal) v and lse = log sum exp of each row's scaled scores (natural logarithm). Overwrites
/// out and lse. Reads the queries once, keys and values again from the L2 cache for every tile of 192 (HS 64) or 128 queries.
void flash_attention_forward_hopper(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* out, float* lse,
                                    const void* qkv);

/// dqkv = the gradient with respect to qkv, all of it overwritten. The weights are recomputed from qkv and lse; `out` and `lse`
/// are what forward wrote. `scratch` holds flash_attention_hopper_scratch_bytes, aligned to 128 bytes, and is overwritten. Long
/// samples with HS 64 take one kernel (flash_attention_hopper_joint.hpp). Others take two, 7 products instead of the 5 that are
/// needed: one owns tiles of queries and sums dq, the other owns tiles of keys and sums dk and dv. So no sum is shared between
/// blocks, and none depends on the order in which blocks run.
void flash_attention_backward_hopper(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const void* dout,
                                     const void* out, const float* lse, const void* qkv, void* scratch);

/// As flash_partial_attention_forward and flash_partial_attention_backward; `scratch` is aligned to 16 bytes.
void flash_partial_attention_forward_hopper(CUstream_st* stream, DType dtype, const FlashBlock& block, float* out, float* lse,
                                            const void* q, const void* kv);
void flash_partial_attention_backward_hopper(CUstream_st* stream, DType dtype, const FlashBlock& block, float* dq, float* dkv,
                                             const void* dout, const void* out, const float* lse, const void* q, const void* kv,
                                             void* scratch);

}  // namespace cohort::ops::cuda
