// ops/partial_attention.hpp on a CPU, head by head (attention_head.hpp).
#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/fp32_copies.hpp"
#include "ops/cpu/kernels.hpp"

namespace cohort::ops::cpu {
namespace {

// The columns of one head in the rows of one run of sample b.
MatrixView part_of(const PartialAttention& block, const Tensor& rows, const TokenRun& run, Count b, Count head) {
  const Count rows_of_sample = rows.shape().rows() / block.sequence.batch;
  const Count stride = rows.shape().columns();
  float* first = rows.f32() + (b * rows_of_sample + run.row) * stride + head * block.sequence.head_size;
  return {first, run.count, block.sequence.head_size, stride};
}

MatrixView query_part(const PartialAttention& block, const Tensor& rows, Count b, Count h) {
  return part_of(block, rows, block.queries, b, h);
}
// Of keys or of values, whose heads come second.
enum class Half { keys, values };
MatrixView key_part(const PartialAttention& block, const Tensor& rows, Half half, Count b, Count h) {
  const AttentionShape& s = block.sequence;
  return part_of(block, rows, block.keys, b, h / (s.heads / s.kv_heads) + (half == Half::values ? s.kv_heads : 0));
}

// Of the queries: where their documents begin, or null.
const std::int32_t* first_keys_of(const PartialAttention& block, Count b) {
  const AttentionShape& s = block.sequence;
  return s.first_keys == nullptr ? nullptr : s.first_keys + b * s.tokens + block.queries.position;
}

AttentionHead head_of(const PartialAttention& block, const Tensor& q, const Tensor& kv, Count b, Count h) {
  return {query_part(block, q, b, h),
          key_part(block, kv, Half::keys, b, h),
          key_part(block, kv, Half::values, b, h),
          block.queries.position,
          block.keys.position,
          first_keys_of(block, b)};
}

float* lse_of(const PartialAttention& block, const Tensor& lse, Count b, Count h) {
  return lse.f32() + (b * block.sequence.heads + h) * lse.shape().columns() + block.queries.row;
}

WeightDropout dropout_of(const PartialAttention& block, const DropoutKey& key, Count b, Count h) {
  return {key, b, block.sequence.heads, h, block.sequence.tokens};
}

Count tile_elements_of(const PartialAttention& block) {
  return attention_tile_elements(block.queries.count, block.keys.count, block.sequence.head_size);
}

float* block_tiles(const Tensor& scratch) { return reinterpret_cast<float*>(scratch.data<std::uint8_t>()); }

}  // namespace

Bytes partial_attention_scratch_bytes(const PartialAttention& block, DType) {
  return tile_elements_of(block) * static_cast<Bytes>(sizeof(float));
}

void partial_attention_forward(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                               const Tensor& q, const Tensor& kv, const Tensor& scratch, const DropoutKey& dropout_key) {
  if (is_narrow(q)) {
    Fp32Copies fp32;
    return cpu::partial_attention_forward(exec, block, out, lse, fp32.in(q), fp32.in(kv), scratch, dropout_key);
  }
  const auto forward = [&](Count b, Count h, float* tile) {
    attention_head_forward(exec, head_of(block, q, kv, b, h), query_part(block, out, b, h), lse_of(block, lse, b, h), tile,
                           dropout_of(block, dropout_key, b, h));
  };
  for_attention_heads(block.sequence, 1, block_tiles(scratch), tile_elements_of(block), forward);
}

void partial_attention_backward(const Exec& exec, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor& scratch, const DropoutKey& dropout_key) {
  if (is_narrow(q)) {
    Fp32Copies fp32;
    return cpu::partial_attention_backward(exec, block, dq, dkv, fp32.in(dout), fp32.in(out), lse, fp32.in(q), fp32.in(kv),
                                           scratch, dropout_key);
  }
  const auto backward = [&](Count b, Count h, float* tiles) {
    const AttentionHeadGradients gradients{query_part(block, dq, b, h), key_part(block, dkv, Half::keys, b, h),
                                           key_part(block, dkv, Half::values, b, h), true, true};
    attention_head_backward(exec, head_of(block, q, kv, b, h), gradients, query_part(block, dout, b, h),
                            query_part(block, out, b, h), lse_of(block, lse, b, h), tiles, dropout_of(block, dropout_key, b, h));
  };
  const Count group = block.sequence.heads / block.sequence.kv_heads;
  for_attention_heads(block.sequence, group, block_tiles(scratch), tile_elements_of(block), backward);
}

}  // namespace cohort::ops::cpu
