#include "ops/attention_block.hpp"

#include <cmath>
#include <limits>

#include "ops/attention_head.hpp"
#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"

namespace cohort::ops {
namespace {

// The columns of one head in the rows of one run of sample b.
MatrixView part_of(const AttentionBlock& block, const Tensor& rows, const TokenRun& run, Count b, Count head) {
  const Count rows_of_sample = rows.shape().rows() / block.sequence.batch;
  const Count stride = rows.shape().columns();
  float* first = rows.f32() + (b * rows_of_sample + run.row) * stride + head * block.sequence.head_size;
  return {first, run.count, block.sequence.head_size, stride};
}

MatrixView query_part(const AttentionBlock& block, const Tensor& rows, Count b, Count h) {
  return part_of(block, rows, block.queries, b, h);
}
// Of keys or of values, whose heads come second.
enum class Half { keys, values };
MatrixView key_part(const AttentionBlock& block, const Tensor& rows, Half half, Count b, Count h) {
  const AttentionShape& s = block.sequence;
  return part_of(block, rows, block.keys, b, h / (s.heads / s.kv_heads) + (half == Half::values ? s.kv_heads : 0));
}

AttentionHead head_of(const AttentionBlock& block, const Tensor& q, const Tensor& kv, Count b, Count h) {
  return {query_part(block, q, b, h), key_part(block, kv, Half::keys, b, h), key_part(block, kv, Half::values, b, h),
          block.queries.position, block.keys.position};
}

float* lse_of(const AttentionBlock& block, const Tensor& lse, Count b, Count h) {
  return lse.f32() + (b * block.sequence.heads + h) * lse.shape().columns() + block.queries.row;
}

WeightDropout dropout_of(const AttentionBlock& block, const DropoutKey& key, Count b, Count h) {
  return {key, b, block.sequence.heads, h, block.sequence.tokens};
}

float* block_tiles(const Tensor& scratch) { return reinterpret_cast<float*>(scratch.data<std::uint8_t>()); }

Bytes host_scratch_bytes(const AttentionBlock& block) {
  return attention_tile_elements(block.queries.count, block.keys.count) * static_cast<Bytes>(sizeof(float));
}

void check_run(const AttentionBlock& block, const TokenRun& run, Count rows_of_sample) {
  COHORT_CHECK(run.count > 0 && run.row >= 0 && run.row + run.count <= rows_of_sample && run.position >= 0 &&
                   run.position + run.count <= block.sequence.tokens,
               "attention block: rows [{}, {}) of {} as tokens [{}, {}) of {}", run.row, run.row + run.count, rows_of_sample,
               run.position, run.position + run.count, block.sequence.tokens);
}

// The sizes of a result, or of a gradient of the queries, for the block's queries.
void check_queries(const AttentionBlock& block, const Tensor& out, const Tensor& lse) {
  const AttentionShape& s = block.sequence;
  COHORT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention block: {} query heads over {} key/value heads", s.heads,
               s.kv_heads);
  COHORT_CHECK(s.batch > 0 && out.shape().columns() == s.width() && out.shape().rows() % s.batch == 0 &&
                   lse.shape().columns() == out.shape().rows() / s.batch && lse.elements() == out.shape().rows() * s.heads,
               "attention block: {} samples, {} heads of {}, out {}, lse {}", s.batch, s.heads, s.head_size, out.shape().str(),
               lse.shape().str());
  check_run(block, block.queries, lse.shape().columns());
}

void check(const Exec& exec, const AttentionBlock& block, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
           const Tensor& scratch) {
  const AttentionShape& s = block.sequence;
  check_queries(block, out, lse);
  COHORT_CHECK(q.shape().rows() == out.shape().rows() && q.shape().columns() >= s.width() && kv.shape().rows() % s.batch == 0 &&
                   kv.shape().columns() == 2 * s.kv_heads * s.head_size,
               "attention block: q {}, kv {} for out {}, {} key/value heads of {}", q.shape().str(), kv.shape().str(),
               out.shape().str(), s.kv_heads, s.head_size);
  check_run(block, block.keys, kv.shape().rows() / s.batch);
  COHORT_CHECK(q.dtype() == kv.dtype(), "attention block: q in {}, kv in {}", name_of(q.dtype()), name_of(kv.dtype()));
  const Bytes needed = attention_block_scratch_bytes(exec.device, block, q.dtype());
  COHORT_CHECK(scratch.bytes() >= needed, "attention block: scratch of {} bytes, {} needed", scratch.bytes(), needed);
}

// One row of one head.
void merge_row(float* out, float& lse, const float* part, float part_lse, Count head_size) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  if (lse == kNothing && part_lse == kNothing) return;
  const float largest = std::max(lse, part_lse);
  // With the larger of the two taken off, exp cannot overflow; the difference is -infinity where one side is nothing.
  const float weight = std::exp(lse - largest);
  const float part_weight = std::exp(part_lse - largest);
  const float sum = weight + part_weight;
  const float keep = weight / sum;
  const float take = part_weight / sum;
#pragma omp simd
  for (Count d = 0; d < head_size; ++d) out[d] = keep * out[d] + take * part[d];
  lse = largest + std::log(sum);
}

}  // namespace

Count visible_pairs(const TokenRun& queries, const TokenRun& keys) {
  Count pairs = 0;
  for (Count i = 0; i < queries.count; ++i) pairs += std::clamp<Count>(queries.position + i + 1 - keys.position, 0, keys.count);
  return pairs;
}

Bytes attention_block_scratch_bytes(DeviceKind device, const AttentionBlock& block, DType dtype) {
  if constexpr (kCudaBuilt) {
    if (device == DeviceKind::cuda) return cuda::attention_block_scratch_bytes(block, dtype);
  }
  return host_scratch_bytes(block);
}

void attention_block_forward(const Exec& exec, const AttentionBlock& block, const Tensor& out, const Tensor& lse, const Tensor& q,
                             const Tensor& kv, const Tensor& scratch, const DropoutKey& dropout_key) {
  check(exec, block, out, lse, q, kv, scratch);
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_block_forward(exec, block, out, lse, q, kv, dropout_key);
  }
  if (is_narrow(q)) {
    Fp32Copies fp32;
    return attention_block_forward(exec, block, out, lse, fp32.in(q), fp32.in(kv), scratch, dropout_key);
  }
  for (Count b = 0; b < block.sequence.batch; ++b) {
    for (Count h = 0; h < block.sequence.heads; ++h) {
      attention_head_forward(exec, head_of(block, q, kv, b, h), query_part(block, out, b, h), lse_of(block, lse, b, h),
                             block_tiles(scratch), dropout_of(block, dropout_key, b, h));
    }
  }
}

void attention_merge(const Exec& exec, const AttentionBlock& block, const Tensor& out, const Tensor& lse, const Tensor& part_out,
                     const Tensor& part_lse) {
  check_queries(block, out, lse);
  COHORT_CHECK(part_out.elements() == out.elements() && part_lse.elements() == lse.elements(), "attention merge: {} and {}",
               out.shape().str(), part_out.shape().str());
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_merge(exec, block, out, lse, part_out, part_lse);
  }
  for (Count b = 0; b < block.sequence.batch; ++b) {
    for (Count h = 0; h < block.sequence.heads; ++h) {
      const MatrixView to = query_part(block, out, b, h);
      const MatrixView from = query_part(block, part_out, b, h);
      float* to_lse = lse_of(block, lse, b, h);
      const float* from_lse = lse_of(block, part_lse, b, h);
      for (Count i = 0; i < to.rows; ++i)
        merge_row(to.data + i * to.stride, to_lse[i], from.data + i * from.stride, from_lse[i], to.columns);
    }
  }
}

void attention_block_backward(const Exec& exec, const AttentionBlock& block, const Tensor& dq, const Tensor& dkv,
                              const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                              const Tensor& scratch, const DropoutKey& dropout_key) {
  check(exec, block, out, lse, q, kv, scratch);
  COHORT_CHECK(dq.shape().columns() == block.sequence.width() && dq.elements() == out.elements() &&
                   dkv.elements() == kv.elements() && dout.elements() == out.elements(),
               "attention block backward: dq {}, dkv {}, dout {}", dq.shape().str(), dkv.shape().str(), dout.shape().str());
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_block_backward(exec, block, dq, dkv, dout, out, lse, q, kv, scratch, dropout_key);
  }
  if (is_narrow(q)) {
    Fp32Copies fp32;
    return attention_block_backward(exec, block, dq, dkv, fp32.in(dout), fp32.in(out), lse, fp32.in(q), fp32.in(kv), scratch,
                                    dropout_key);
  }
  for (Count b = 0; b < block.sequence.batch; ++b) {
    for (Count h = 0; h < block.sequence.heads; ++h) {
      const AttentionHeadGradients gradients{query_part(block, dq, b, h), key_part(block, dkv, Half::keys, b, h),
                                             key_part(block, dkv, Half::values, b, h), true, true};
      attention_head_backward(exec, head_of(block, q, kv, b, h), gradients, query_part(block, dout, b, h),
                              query_part(block, out, b, h), lse_of(block, lse, b, h), block_tiles(scratch),
                              dropout_of(block, dropout_key, b, h));
    }
  }
}

}  // namespace cohort::ops
