// The rungs of flash attention. Operations are counted for the causal half: 2 products of T x T x HS forward, 5 backward,
// although an implementation may do more.
#include "commands/bench_kernels_meter.hpp"
#include "ops/cuda/flash_attention.hpp"
#include "ops/cuda/flash_attention_hopper.hpp"

namespace cohort {

void measure_attention(Meter& meter, const StepShape& shape) {
  using namespace ops::cuda;
  constexpr DType kType = DType::bf16;
  const ops::AttentionShape s = shape.attention();
  const bool hopper = gpu::facts().compute_capability == 90 && flash_attention_hopper_supports(kType, s);
  const Bytes row_bytes = shape.rows() * size_of(kType);
  void* const qkv = meter.normals(s.packed_width() * row_bytes);
  void* const dqkv = meter.normals(s.packed_width() * row_bytes);
  void* const out = meter.normals(s.width() * row_bytes);
  void* const dout = meter.normals(s.width() * row_bytes);
  float* const lse = meter.normals<float>(s.batch * s.heads * s.tokens * size_of(DType::f32));
  void* const scratch = meter.normals(std::max(flash_attention_scratch_bytes(s, kType), flash_attention_hopper_scratch_bytes(s)));
  const double product = static_cast<double>(s.batch * s.heads * s.tokens) * static_cast<double>(s.tokens * s.head_size);
  gpu::Stream const stream = gpu::compute_stream();

  const Count portable_runs = hopper ? 0 : shape.layers;
  meter.product("attention forward, portable", portable_runs, 2.0 * product,
                [&] { flash_attention_forward(stream, kType, s, out, lse, qkv); });
  meter.product("attention backward, portable", portable_runs, 5.0 * product,
                [&] { flash_attention_backward(stream, kType, s, dqkv, dout, out, lse, qkv, scratch); });
  if (!hopper) return;
  meter.product("attention forward, Hopper", shape.layers, 2.0 * product,
                [&] { flash_attention_forward_hopper(stream, kType, s, out, lse, qkv); });
  meter.product("attention backward, Hopper", shape.layers, 5.0 * product,
                [&] { flash_attention_backward_hopper(stream, kType, s, dqkv, dout, out, lse, qkv, scratch); });
}

}  // namespace cohort
