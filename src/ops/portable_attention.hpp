// The portable attention, for every Kokkos back end: whole causal attention (attention.cpp) and a block of it
// (partial_attention.cpp) are both put to it in these terms; neither file is for anybody else.
//
// A team takes a tile of queries (or, for the gradients of keys and values, of keys), walks over the tiles of the other side, and
// keeps what it needs in its own memory: the online softmax of FlashAttention-2 (Dao 2023). Nothing of size T x T is in memory,
// no two teams write to the same place, and every sum has one order.
#pragma once

#include "ops/attention_shape.hpp"
#include "ops/exec.hpp"
#include "ops/pointwise.hpp"

namespace cohort::ops {

/// Rows of heads: element d of head h in row i of sample b is at data[b * sample_stride + i * row_stride + h * HS + d].
struct HeadRows {
  void* data = nullptr;
  DType dtype = DType::f32;
  Count sample_stride = 0;
  Count row_stride = 0;
};

struct AttentionTask {
  AttentionShape shape;          // of whole samples, also its first_keys
  Count queries, keys;           // rows of each sample that take part
  Count first_query, first_key;  // their positions; a query sees the keys of its document up to its own
  HeadRows q, k, v;              // of one type; k and v have the key/value heads
  HeadRows out;                  // forward writes it in that type or fp32; backward reads it in that type
  float* lse;                    // of query i: lse[(b * NH + h) * lse_stride + i]
  Count lse_stride;
  DropoutKey dropout = {};
  // Backward only. The gradients are all of the type of q, or all fp32.
  HeadRows dout = {};
  HeadRows dq = {}, dk = {}, dv = {};
  bool add = false;  // to dq, dk and dv; else they are overwritten
};

/// out = softmax(q k^T / sqrt(HS)) v over the visible keys, and lse, the logarithm of the softmax's denominator; 0 and -infinity
/// for a query that sees no key.
void portable_attention_forward(const Exec& exec, const AttentionTask& task);

/// dq, dk and dv from out, lse and dout, which are those of the softmax over all keys that the queries see, here or elsewhere.
void portable_attention_backward(const Exec& exec, const AttentionTask& task);

}  // namespace cohort::ops
