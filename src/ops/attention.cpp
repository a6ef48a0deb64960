#include "ops/attention.hpp"

#include "ops/op_note.hpp"
#include "ops/portable_attention.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check(const AttentionShape& s, const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  COHORT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: {} query heads over {} key/value heads", s.heads,
               s.kv_heads);
  COHORT_CHECK(qkv.elements() == s.batch * s.tokens * s.packed_width() && out.elements() == s.batch * s.tokens * s.width() &&
                   lse.elements() == s.batch * s.heads * s.tokens,
               "attention: qkv {}, out {}, lse {}", qkv.shape().str(), out.shape().str(), lse.shape().str());
}

// The heads from `head` on of a packed activation.
HeadRows packed_heads(const AttentionShape& s, const Tensor& qkv, Count head) {
  return {static_cast<std::byte*>(qkv.raw()) + head * s.head_size * size_of(qkv.dtype()), qkv.dtype(),
          s.tokens * s.packed_width(), s.packed_width()};
}

HeadRows output_heads(const AttentionShape& s, const Tensor& out) {
  return {out.raw(), out.dtype(), s.tokens * s.width(), s.width()};
}

AttentionTask task_of(const AttentionShape& s, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                      const DropoutKey& dropout) {
  return {.shape = s,
          .queries = s.tokens,
          .keys = s.tokens,
          .first_query = 0,
          .first_key = 0,
          .q = packed_heads(s, qkv, 0),
          .k = packed_heads(s, qkv, s.heads),
          .v = packed_heads(s, qkv, s.heads + s.kv_heads),
          .out = output_heads(s, out),
          .lse = lse.f32(),
          .lse_stride = s.tokens,
          .dropout = dropout};
}

Count causal_pairs(const AttentionShape& s) { return s.tokens * (s.tokens + 1) / 2; }

}  // namespace

Bytes attention_scratch_bytes(const Exec& exec, const AttentionShape& shape, DType dtype) {
  const auto tuned = tuned_scratch(exec).attention;
  return tuned ? tuned(shape, dtype) : 0;
}

void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key) {
  const OpNote note("attention_forward", {&qkv}, {&out, &lse}, attention_work(qkv, shape, causal_pairs(shape), kForwardProducts));
  check(shape, qkv, out, lse);
  if (const auto kernel = tuned_kernels(exec).attention_forward) return kernel(exec, shape, out, lse, qkv, scratch, dropout_key);
  portable_attention_forward(exec, task_of(shape, out, lse, qkv, dropout_key));
}

void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key) {
  const OpNote note("attention_backward", {&dout, &out, &lse, &qkv}, {&dqkv},
                    attention_work(qkv, shape, causal_pairs(shape), kBackwardProducts));
  check(shape, qkv, out, lse);
  COHORT_CHECK(dqkv.elements() == qkv.elements() && dout.elements() == out.elements(), "attention backward: dqkv {}, dout {}",
               dqkv.shape().str(), dout.shape().str());
  if (const auto kernel = tuned_kernels(exec).attention_backward)
    return kernel(exec, shape, dqkv, dout, out, lse, qkv, scratch, dropout_key);
  AttentionTask task = task_of(shape, out, lse, qkv, dropout_key);
  task.dout = output_heads(shape, dout);
  task.dq = packed_heads(shape, dqkv, 0);
  task.dk = packed_heads(shape, dqkv, shape.heads);
  task.dv = packed_heads(shape, dqkv, shape.heads + shape.kv_heads);
  portable_attention_backward(exec, task);
}

}  // namespace cohort::ops
