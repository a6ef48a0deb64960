// Which attention kernel serves a problem: the one made for Hopper where it can, else the portable one.
#include <cmath>

#include "base/error.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/flash_attention.hpp"
#include "ops/cuda/flash_attention_hopper.hpp"
#include "ops/cuda/ops.hpp"

namespace cohort::ops::cuda {
namespace {

bool on_hopper(const AttentionShape& shape, DType dtype, bool dropout) {
  return !dropout && gpu::facts().compute_capability == 90 && flash_attention_hopper_supports(dtype, shape);
}

void check(const AttentionShape& s, DType dtype, const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  COHORT_CHECK(qkv.elements() == s.batch * s.tokens * s.packed_width() && out.elements() == s.batch * s.tokens * s.width() &&
                   lse.elements() == s.batch * s.heads * s.tokens,
               "attention: qkv {}, out {}, lse {}", qkv.shape().str(), out.shape().str(), lse.shape().str());
  if (flash_attention_supports(dtype, s)) return;
  fail(ExitCode::config,
       "attention on a GPU takes head sizes that are multiples of 8 up to 128 in bf16 and fp16, and up to 256 in fp32, not {} in "
       "{}: "
       "change model.heads or precision.policy",
       s.head_size, name_of(dtype));
}

FlashDropout dropout_of(const DropoutKey& key) {
  if (key.probability == 0.0) return {};
  return {.threshold = static_cast<std::uint64_t>(std::ceil(std::ldexp(key.probability, 53))),
          .keep_scale = static_cast<float>(1.0 / (1.0 - key.probability)),
          .seed = key.seed,
          .step = key.step,
          .layer = key.layer,
          .slots = key.slots.data(),
          .first_head = key.first_head,
          .all_heads = key.all_heads};
}

}  // namespace

Bytes attention_scratch_bytes(const AttentionShape& shape, DType dtype) {
  const Bytes portable = flash_attention_scratch_bytes(shape, dtype);
  if (!flash_attention_hopper_supports(dtype, shape)) return portable;
  return std::max(portable, flash_attention_hopper_scratch_bytes(shape));
}

void attention_forward(const Exec&, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const DropoutKey& dropout_key) {
  const DType dtype = qkv.dtype();
  check(shape, dtype, qkv, out, lse);
  if (on_hopper(shape, dtype, dropout_key.probability > 0.0)) {
    flash_attention_forward_hopper(gpu::compute_stream(), dtype, shape, out.raw(), lse.f32(), qkv.raw());
  } else {
    flash_attention_forward(gpu::compute_stream(), dtype, shape, out.raw(), lse.f32(), qkv.raw(), dropout_of(dropout_key));
  }
  gpu::check_launch("attention_forward");
}

void attention_backward(const Exec&, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key) {
  const DType dtype = qkv.dtype();
  check(shape, dtype, qkv, out, lse);
  if (on_hopper(shape, dtype, dropout_key.probability > 0.0)) {
    flash_attention_backward_hopper(gpu::compute_stream(), dtype, shape, dqkv.raw(), dout.raw(), out.raw(), lse.f32(), qkv.raw(),
                                    scratch.raw());
  } else {
    flash_attention_backward(gpu::compute_stream(), dtype, shape, dqkv.raw(), dout.raw(), out.raw(), lse.f32(), qkv.raw(),
                             scratch.raw(), dropout_of(dropout_key));
  }
  gpu::check_launch("attention_backward");
}

}  // namespace cohort::ops::cuda
