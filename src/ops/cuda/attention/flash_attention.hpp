// Causal self-attention on NVIDIA GPUs by tiles, after FlashAttention-2 (Dao 2023, arXiv 2307.08691): the portable rung, for
// compute capability 8.0 and newer. No T x T matrix is ever stored: a block of queries walks over tiles of keys and values in
// shared memory and keeps a running softmax.
//
// Data as in ops/attention.hpp: qkv [B, T, (NH + 2 NKV) HS] holds in each row the query heads, then the key heads, then the value
// heads; query head h reads key/value head h / (NH / NKV). out and dout are [B, T, NH HS], lse [B, NH, T] is fp32. All pointers
// are device pointers, aligned to 16 bytes.
//
// A block of attention over a divided sequence (ops/partial_attention.hpp) is served by the same kernels, which take rows
// anywhere in the sequence.
//
// bf16 and fp16 multiply on tensor cores with fp32 sums; the softmax weights are rounded to the 16-bit type before they meet the
// values, as are the gradients of the scores. fp32 multiplies and adds in fp32 (no TF32), for parity with the CPU.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same
// input, same bits: no atomics, every sum has one order.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "ops/attention_shape.hpp"
#include "ops/token_rows.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// Dropout on the softmax weights. The weight of (query, key) of head h in sample b is kept, times keep_scale, when
///   CounterRandom(seed, RandomPurpose::dropout, step, layer).u64(index) >> 11  >=  threshold,
///   index = ((slots[b] * all_heads + first_head + h) * T + query) * T + key  (all_heads: NH if 0),
/// which is the decision uniform(index) >= probability of the CPU when threshold = ceil(probability * 2^53).
struct FlashDropout {
  std::uint64_t threshold = 0;  // 0 = no dropout; the other fields are then not read
  float keep_scale = 1.0f;      // 1 / (1 - probability)
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  const Count* slots = nullptr;  // device array [B]
  Count first_head = 0;          // of the model's all_heads heads, this problem has NH from first_head
  Count all_heads = 0;
};

/// The rows of a block: those of block.queries in q [B, query_rows, query_width], which begin with the query heads, against those
/// of block.keys in kv [B, key_rows, 2 NKV HS].
struct FlashBlock {
  AttentionShape sequence;  // of whole samples: tokens is T
  TokenRun queries;
  TokenRun keys;
  Count query_rows;
  Count query_width;  // in 16 bits a multiple of 8
  Count key_rows;

  /// That all queries see all keys, or each query the keys up to its own row: all that a ring over equal chunks needs.
  bool full() const { return keys.position + keys.count - 1 <= queries.position; }
  bool diagonal() const { return keys.position == queries.position && keys.count == queries.count; }
};

/// Whether the launchers take this problem: any B and T (with fewer than 2^31 elements of qkv in a sample), NH a multiple of
/// NKV; head sizes up to 256 in fp32, multiples of 8 up to 128 in bf16 and fp16, which work on tiles 32, 64 or 128 wide.
bool flash_attention_supports(DType dtype, const AttentionShape& shape);

/// Bytes of scratch that backward needs: one float for each row of each head. A block needs what attention over its queries
/// would.
Bytes flash_attention_scratch_bytes(const AttentionShape& shape, DType dtype);

/// out = softmax(q k^T / sqrt(HS), causal) v and lse = log sum exp of each row's scaled scores (natural logarithm). Overwrites
/// out and lse. Reads qkv once from memory, its keys and values again from the cache for every block of 128 queries.
void flash_attention_forward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* out, float* lse,
                             const void* qkv, const FlashDropout& dropout = {});

/// dqkv = the gradient with respect to qkv, all of it overwritten; the formulas are in ops/reference/attention.hpp. The weights
/// are recomputed from qkv and lse. `out` and `lse` are what forward wrote, with the same dropout. `scratch` holds
/// flash_attention_scratch_bytes and is overwritten. Two kernels, one for dq, one for dk and dv; each reads qkv and dout once
/// from memory, and again from the cache for every block of 128 queries or of 128 (64 when HS > 64) keys.
void flash_attention_backward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const void* dout,
                              const void* out, const float* lse, const void* qkv, void* scratch,
                              const FlashDropout& dropout = {});

/// Of the block's queries: out [B, query_rows, NH HS] and lse [B, NH, query_rows], both fp32, over the block's visible keys; 0
/// and -infinity where there is none. q and kv are of `dtype`; flash_attention_supports must hold for samples of as many rows.
void flash_partial_attention_forward(CUstream_st* stream, DType dtype, const FlashBlock& block, float* out, float* lse,
                                     const void* q, const void* kv, const FlashDropout& dropout = {});

/// What the block adds to dq [B, query_rows, NH HS] and dkv [B, key_rows, 2 NKV HS], both fp32. `out` (of `dtype`, like dout) and
/// `lse` are those over all keys. `scratch` is overwritten.
void flash_partial_attention_backward(CUstream_st* stream, DType dtype, const FlashBlock& block, float* dq, float* dkv,
                                      const void* dout, const void* out, const float* lse, const void* q, const void* kv,
                                      void* scratch, const FlashDropout& dropout = {});

}  // namespace cohort::ops::cuda
