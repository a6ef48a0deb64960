// Which attention kernel serves a problem: the one made for Hopper where it can, else the portable one.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/attention/attention_merge.hpp"
#include "ops/cuda/attention/flash_attention.hpp"
#include "ops/cuda/attention/flash_attention_hopper.hpp"
#include "ops/cuda/ops.hpp"

namespace cohort::ops::cuda {
namespace {

bool on_hopper(bool supported, const DropoutKey& key) {
  return supported && key.probability == 0.0 && gpu::facts().compute_capability == 90;
}
bool on_hopper(const AttentionShape& shape, DType dtype, const DropoutKey& key) {
  return on_hopper(flash_attention_hopper_supports(dtype, shape), key);
}

void check_supported(DType dtype, const AttentionShape& s) {
  if (flash_attention_supports(dtype, s)) return;
  fail(ExitCode::config,
       "attention on a GPU supports head sizes that are multiples of 8 up to 128 in bf16 and fp16, and up to 256 in fp32, not {} "
       "in {}: change model.heads or precision.policy",
       s.head_size, name_of(dtype));
}

void check(const AttentionShape& s, DType dtype, const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  COHORT_CHECK(qkv.elements() == s.batch * s.tokens * s.packed_width() && out.elements() == s.batch * s.tokens * s.width() &&
                   lse.elements() == s.batch * s.heads * s.tokens,
               "attention: qkv {}, out {}, lse {}", qkv.shape().str(), out.shape().str(), lse.shape().str());
  check_supported(dtype, s);
}

FlashBlock flash_block(const PartialAttention& block, const Tensor& q, const Tensor& kv) {
  const Count query_rows = q.shape().rows() / block.sequence.batch, key_rows = kv.shape().rows() / block.sequence.batch;
  AttentionShape here = block.sequence;
  here.tokens = std::max(query_rows, key_rows);
  constexpr Count kElementsOf16Bytes = 8;  // that kernels load at a time
  const Count width = q.shape().columns();
  COHORT_CHECK(width <= here.packed_width() && (q.dtype() == DType::f32 || width % kElementsOf16Bytes == 0),
               "attention block: rows of q are {} elements, for heads of {}", width, here.head_size);
  check_supported(q.dtype(), here);
  return {block.sequence, block.queries, block.keys, query_rows, width, key_rows};
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
                       const Tensor&, const DropoutKey& dropout_key) {
  const DType dtype = qkv.dtype();
  check(shape, dtype, qkv, out, lse);
  if (on_hopper(shape, dtype, dropout_key)) {
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
  if (on_hopper(shape, dtype, dropout_key)) {
    flash_attention_backward_hopper(gpu::compute_stream(), dtype, shape, dqkv.raw(), dout.raw(), out.raw(), lse.f32(), qkv.raw(),
                                    scratch.raw());
  } else {
    flash_attention_backward(gpu::compute_stream(), dtype, shape, dqkv.raw(), dout.raw(), out.raw(), lse.f32(), qkv.raw(),
                             scratch.raw(), dropout_of(dropout_key));
  }
  gpu::check_launch("attention_backward");
}

Bytes partial_attention_scratch_bytes(const PartialAttention& block, DType dtype) {
  AttentionShape queries = block.sequence;
  queries.tokens = block.queries.count;
  const Bytes portable = flash_attention_scratch_bytes(queries, dtype);
  if (!flash_attention_hopper_supports(dtype, queries)) return portable;
  return std::max(portable, flash_partial_attention_hopper_scratch_bytes(queries));
}

void partial_attention_forward(const Exec&, const PartialAttention& block, const Tensor& out, const Tensor& lse, const Tensor& q,
                               const Tensor& kv, const Tensor&, const DropoutKey& dropout_key) {
  const FlashBlock flash = flash_block(block, q, kv);
  if (on_hopper(flash_partial_attention_hopper_supports(q.dtype(), flash), dropout_key)) {
    flash_partial_attention_forward_hopper(gpu::compute_stream(), q.dtype(), flash, out.f32(), lse.f32(), q.raw(), kv.raw());
  } else {
    flash_partial_attention_forward(gpu::compute_stream(), q.dtype(), flash, out.f32(), lse.f32(), q.raw(), kv.raw(),
                                    dropout_of(dropout_key));
  }
  gpu::check_launch("partial_attention_forward");
}

void partial_attention_backward(const Exec&, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor& scratch, const DropoutKey& dropout_key) {
  const FlashBlock flash = flash_block(block, q, kv);
  COHORT_CHECK(dout.dtype() == q.dtype() && out.dtype() == q.dtype(), "attention block backward: dout in {}, out in {}, q in {}",
               name_of(dout.dtype()), name_of(out.dtype()), name_of(q.dtype()));
  if (on_hopper(flash_partial_attention_hopper_supports(q.dtype(), flash), dropout_key)) {
    flash_partial_attention_backward_hopper(gpu::compute_stream(), q.dtype(), flash, dq.f32(), dkv.f32(), dout.raw(), out.raw(),
                                            lse.f32(), q.raw(), kv.raw(), scratch.raw());
  } else {
    flash_partial_attention_backward(gpu::compute_stream(), q.dtype(), flash, dq.f32(), dkv.f32(), dout.raw(), out.raw(),
                                     lse.f32(), q.raw(), kv.raw(), scratch.raw(), dropout_of(dropout_key));
  }
  gpu::check_launch("partial_attention_backward");
}

void attention_merge(const Exec&, const PartialAttention& block, const Tensor& out, const Tensor& lse, const Tensor& part_out,
                     const Tensor& part_lse) {
  attention_merge(gpu::compute_stream(), block.sequence, block.queries, out.shape().rows() / block.sequence.batch, out.f32(),
                  lse.f32(), part_out.f32(), part_lse.f32());
  gpu::check_launch("attention_merge");
}

}  // namespace cohort::ops::cuda
