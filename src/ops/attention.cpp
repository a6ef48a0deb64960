#include "ops/attention.hpp"

#include "ops/attention_head.hpp"
#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"

namespace cohort::ops {
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

Bytes host_scratch_bytes(const AttentionShape& s) {
  return attention_tile_elements(s.tokens, s.tokens) * static_cast<Bytes>(sizeof(float));
}
// The caller's memory is of bytes.
float* tiles(const Tensor& scratch) { return reinterpret_cast<float*>(scratch.data<std::uint8_t>()); }

void check(const AttentionShape& s, const Tensor& qkv, const Tensor& out, const Tensor& lse, const Tensor& scratch) {
  COHORT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: {} query heads over {} key/value heads", s.heads,
               s.kv_heads);
  COHORT_CHECK(qkv.elements() == s.batch * s.tokens * s.packed_width() && out.elements() == s.batch * s.tokens * s.width() &&
                   lse.elements() == s.batch * s.heads * s.tokens,
               "attention: qkv {}, out {}, lse {}", qkv.shape().str(), out.shape().str(), lse.shape().str());
  COHORT_CHECK(scratch.bytes() >= host_scratch_bytes(s), "attention: scratch of {} bytes, {} needed", scratch.bytes(),
               host_scratch_bytes(s));
}

}  // namespace

Bytes attention_scratch_bytes(DeviceKind device, const AttentionShape& shape, DType dtype) {
  if constexpr (kCudaBuilt) {
    if (device == DeviceKind::cuda) return cuda::attention_scratch_bytes(shape, dtype);
  }
  return host_scratch_bytes(shape);
}

void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_forward(exec, shape, out, lse, qkv, dropout_key);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return attention_forward(exec, shape, fp32.out(out), lse, fp32.in(qkv), scratch, dropout_key);
  }
  check(shape, qkv, out, lse, scratch);
  for (Count b = 0; b < shape.batch; ++b) {
    for (Count h = 0; h < shape.heads; ++h) {
      const auto [q, k, v] = head_of(shape, qkv, b, h);
      attention_head_forward(exec, {q, k, v}, head_of_output(shape, out, b, h), lse.f32() + (b * shape.heads + h) * shape.tokens,
                             tiles(scratch), WeightDropout(dropout_key, b, shape.heads, h, shape.tokens));
    }
  }
}

void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_backward(exec, shape, dqkv, dout, out, lse, qkv, scratch, dropout_key);
  }
  if (is_narrow(dqkv)) {
    Fp32Copies fp32;
    return attention_backward(exec, shape, fp32.out(dqkv), fp32.in(dout), fp32.in(out), lse, fp32.in(qkv), scratch, dropout_key);
  }
  check(shape, qkv, out, lse, scratch);
  COHORT_CHECK(dqkv.elements() == qkv.elements() && dout.elements() == out.elements(), "attention backward: dqkv {}, dout {}",
               dqkv.shape().str(), dout.shape().str());
  for (Count b = 0; b < shape.batch; ++b) {
    for (Count h = 0; h < shape.heads; ++h) {
      const auto [q, k, v] = head_of(shape, qkv, b, h);
      const auto [dq, dk, dv] = head_of(shape, dqkv, b, h);
      // The first query head of a group overwrites the gradient of the key/value head that they share.
      const bool first_of_group = h % (shape.heads / shape.kv_heads) == 0;
      attention_head_backward(exec, {q, k, v}, {dq, dk, dv, false, !first_of_group}, head_of_output(shape, dout, b, h),
                              head_of_output(shape, out, b, h), lse.f32() + (b * shape.heads + h) * shape.tokens, tiles(scratch),
                              WeightDropout(dropout_key, b, shape.heads, h, shape.tokens));
    }
  }
}

}  // namespace cohort::ops
