// The rungs of flash attention. Operations are counted for the causal half: 2 products of T x T x HS forward, 5 backward,
// although an implementation may do more; for a block of ring attention whose queries see all keys, twice that.
#include "commands/bench/kernels_meter.hpp"
#include "ops/cuda/attention/attention_merge.hpp"
#include "ops/cuda/attention/flash_attention.hpp"
#include "ops/cuda/attention/flash_attention_hopper.hpp"

namespace cohort {
namespace {

// T queries against T keys before them, as ring attention meets them; merging takes in one more block's result.
void measure_full_block(Meter& meter, const ops::AttentionShape& s, double product, const void* qkv, const void* out,
                        const void* dout, void* scratch) {
  using namespace ops::cuda;
  ops::AttentionShape sequence = s;
  sequence.tokens = 2 * s.tokens;
  const FlashBlock block{sequence, {0, s.tokens, s.tokens}, {0, 0, s.tokens}, s.tokens, s.packed_width(), s.tokens};
  const Count rows = s.batch * s.tokens, kv_elements = rows * 2 * s.kv_heads * s.head_size;
  const void* const kv = meter.normals(kv_elements * size_of(DType::bf16));
  float* const results = meter.normals<float>(rows * s.width() * size_of(DType::f32));
  float* const part = meter.normals<float>(rows * s.width() * size_of(DType::f32));
  float* const lse = meter.normals<float>(rows * s.heads * size_of(DType::f32));
  float* const part_lse = meter.normals<float>(rows * s.heads * size_of(DType::f32));
  float* const dkv = meter.normals<float>(kv_elements * size_of(DType::f32));
  gpu::Stream const stream = gpu::compute_stream();
  meter.product("attention block forward, Hopper", 0, 4.0 * product,
                [&] { flash_partial_attention_forward_hopper(stream, DType::bf16, block, results, lse, qkv, kv); });
  meter.product("attention block backward, Hopper", 0, 10.0 * product, [&] {
    flash_partial_attention_backward_hopper(stream, DType::bf16, block, part, dkv, dout, out, lse, qkv, kv, scratch);
  });
  const auto merged = static_cast<double>(3 * rows * s.width() * size_of(DType::f32));
  meter.pass("attention merge", 0, merged,
             [&] { attention_merge(stream, s, block.queries, s.tokens, results, lse, part, part_lse); });
}

// Samples packed with documents of an eighth of their tokens. Operations are counted for what a document sees of itself: an
// eighth of those without documents.
void measure_documents(Meter& meter, const ops::AttentionShape& s, double product, bool hopper, void* dqkv, void* out, float* lse,
                       const void* qkv, const void* dout, void* scratch) {
  using namespace ops::cuda;
  constexpr DType kType = DType::bf16;
  constexpr int kDocuments = 8;
  const double seen = product / kDocuments;
  const Count length = std::max<Count>(1, s.tokens / kDocuments);
  std::vector<std::int32_t> first_keys;
  for (Count i = 0; i < s.batch * s.tokens; ++i) first_keys.push_back(static_cast<std::int32_t>(i % s.tokens / length * length));
  ops::AttentionShape packed = s;
  packed.first_keys = meter.holding(first_keys);
  gpu::Stream const stream = gpu::compute_stream();
  meter.product("attention forward, 8 documents, portable", 0, 2.0 * seen,
                [&] { flash_attention_forward(stream, kType, packed, out, lse, qkv); });
  meter.product("attention backward, 8 documents, portable", 0, 5.0 * seen,
                [&] { flash_attention_backward(stream, kType, packed, dqkv, dout, out, lse, qkv, scratch); });
  if (!hopper) return;
  meter.product("attention forward, 8 documents, Hopper", 0, 2.0 * seen,
                [&] { flash_attention_forward_hopper(stream, kType, packed, out, lse, qkv); });
  meter.product("attention backward, 8 documents, Hopper", 0, 5.0 * seen,
                [&] { flash_attention_backward_hopper(stream, kType, packed, dqkv, dout, out, lse, qkv, scratch); });
}

}  // namespace

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

  const Count portable_runs = hopper ? 0 : shape.layers();
  meter.product("attention forward, portable", portable_runs, 2.0 * product,
                [&] { flash_attention_forward(stream, kType, s, out, lse, qkv); });
  meter.product("attention backward, portable", portable_runs, 5.0 * product,
                [&] { flash_attention_backward(stream, kType, s, dqkv, dout, out, lse, qkv, scratch); });
  measure_documents(meter, s, product, hopper, dqkv, out, lse, qkv, dout, scratch);
  if (!hopper) return;
  meter.product("attention forward, Hopper", shape.layers(), 2.0 * product,
                [&] { flash_attention_forward_hopper(stream, kType, s, out, lse, qkv); });
  meter.product("attention backward, Hopper", shape.layers(), 5.0 * product,
                [&] { flash_attention_backward_hopper(stream, kType, s, dqkv, dout, out, lse, qkv, scratch); });
  measure_full_block(meter, s, product, qkv, out, dout, scratch);
}

}  // namespace cohort
