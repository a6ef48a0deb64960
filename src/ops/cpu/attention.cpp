// ops/attention.hpp on a CPU, head by head (attention_head.hpp).
#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/fp32_copies.hpp"
#include "ops/cpu/kernels.hpp"

namespace cohort::ops::cpu {
namespace {

// One head of one sample inside the packed activations: [T, HS] each, with the packed row as stride.
struct PackedHead {
  MatrixView q, k, v;
};

PackedHead head_of(const AttentionShape& s, const Tensor& qkv, Count b, Count h) {
  float* sample = qkv.f32() + b * s.tokens * s.packed_width();
  const Count kv = h / (s.heads / s.kv_heads);
  const auto part = [&](Count column) {
    return MatrixView{sample + column * s.head_size, s.tokens, s.head_size, s.packed_width()};
  };
  return {part(h), part(s.heads + kv), part(s.heads + s.kv_heads + kv)};
}

MatrixView head_of_output(const AttentionShape& s, const Tensor& out, Count b, Count h) {
  return {out.f32() + b * s.tokens * s.width() + h * s.head_size, s.tokens, s.head_size, s.width()};
}

// Where the documents of sample b begin, or null.
const std::int32_t* first_keys_of(const AttentionShape& s, Count b) {
  return s.first_keys == nullptr ? nullptr : s.first_keys + b * s.tokens;
}

// The caller's memory is of bytes.
float* tiles(const Tensor& scratch) { return reinterpret_cast<float*>(scratch.data<std::uint8_t>()); }

}  // namespace

Bytes attention_scratch_bytes(const AttentionShape& shape, DType) {
  return attention_tile_elements(shape.tokens, shape.tokens, shape.head_size) * static_cast<Bytes>(sizeof(float));
}

namespace {
void check_scratch(const AttentionShape& s, const Tensor& scratch) {
  const Bytes needed = attention_scratch_bytes(s, DType::f32);
  COHORT_CHECK(scratch.bytes() >= needed, "attention: scratch of {} bytes, {} needed", scratch.bytes(), needed);
}
}  // namespace

void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key) {
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return cpu::attention_forward(exec, shape, fp32.out(out), lse, fp32.in(qkv), scratch, dropout_key);
  }
  check_scratch(shape, scratch);
  const auto forward = [&](Count b, Count h, float* tile) {
    const auto [q, k, v] = head_of(shape, qkv, b, h);
    attention_head_forward(exec, {q, k, v, 0, 0, first_keys_of(shape, b)}, head_of_output(shape, out, b, h),
                           lse.f32() + (b * shape.heads + h) * shape.tokens, tile,
                           WeightDropout(dropout_key, b, shape.heads, h, shape.tokens));
  };
  for_attention_heads(shape, 1, tiles(scratch), attention_tile_elements(shape.tokens, shape.tokens, shape.head_size), forward);
}

void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key) {
  if (is_narrow(dqkv)) {
    Fp32Copies fp32;
    return cpu::attention_backward(exec, shape, fp32.out(dqkv), fp32.in(dout), fp32.in(out), lse, fp32.in(qkv), scratch,
                                   dropout_key);
  }
  check_scratch(shape, scratch);
  const auto backward = [&](Count b, Count h, float* own_tiles) {
    const auto [q, k, v] = head_of(shape, qkv, b, h);
    const auto [dq, dk, dv] = head_of(shape, dqkv, b, h);
    // The first query head of a group overwrites the gradient of the key/value head that they share.
    const bool first_of_group = h % (shape.heads / shape.kv_heads) == 0;
    attention_head_backward(exec, {q, k, v, 0, 0, first_keys_of(shape, b)}, {dq, dk, dv, false, !first_of_group},
                            head_of_output(shape, dout, b, h), head_of_output(shape, out, b, h),
                            lse.f32() + (b * shape.heads + h) * shape.tokens, own_tiles,
                            WeightDropout(dropout_key, b, shape.heads, h, shape.tokens));
  };
  for_attention_heads(shape, shape.heads / shape.kv_heads, tiles(scratch),
                      attention_tile_elements(shape.tokens, shape.tokens, shape.head_size), backward);
}

}  // namespace cohort::ops::cpu
