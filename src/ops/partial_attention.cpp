#include "ops/partial_attention.hpp"

#include <cmath>

#include "ops/op_note.hpp"
#include "ops/parallel.hpp"
#include "ops/portable_attention.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check_run(const PartialAttention& block, const TokenRun& run, Count rows_of_sample) {
  COHORT_CHECK(run.count > 0 && run.row >= 0 && run.row + run.count <= rows_of_sample && run.position >= 0 &&
                   run.position + run.count <= block.sequence.tokens,
               "attention block: rows [{}, {}) of {} as tokens [{}, {}) of {}", run.row, run.row + run.count, rows_of_sample,
               run.position, run.position + run.count, block.sequence.tokens);
}

// The sizes of a result, or of a gradient of the queries, for the block's queries.
void check_queries(const PartialAttention& block, const Tensor& out, const Tensor& lse) {
  const AttentionShape& s = block.sequence;
  COHORT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention block: {} query heads over {} key/value heads", s.heads,
               s.kv_heads);
  COHORT_CHECK(s.batch > 0 && out.shape().columns() == s.width() && out.shape().rows() % s.batch == 0 &&
                   lse.shape().columns() == out.shape().rows() / s.batch && lse.elements() == out.shape().rows() * s.heads,
               "attention block: {} samples, {} heads of {}, out {}, lse {}", s.batch, s.heads, s.head_size, out.shape().str(),
               lse.shape().str());
  check_run(block, block.queries, lse.shape().columns());
}

void check(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse, const Tensor& q,
           const Tensor& kv, const Tensor& scratch) {
  const AttentionShape& s = block.sequence;
  check_queries(block, out, lse);
  COHORT_CHECK(q.shape().rows() == out.shape().rows() && q.shape().columns() >= s.width() && kv.shape().rows() % s.batch == 0 &&
                   kv.shape().columns() == 2 * s.kv_heads * s.head_size,
               "attention block: q {}, kv {} for out {}, {} key/value heads of {}", q.shape().str(), kv.shape().str(),
               out.shape().str(), s.kv_heads, s.head_size);
  check_run(block, block.keys, kv.shape().rows() / s.batch);
  COHORT_CHECK(q.dtype() == kv.dtype(), "attention block: q in {}, kv in {}", name_of(q.dtype()), name_of(kv.dtype()));
  const Bytes needed = partial_attention_scratch_bytes(exec, block, q.dtype());
  COHORT_CHECK(scratch.bytes() >= needed, "attention block: scratch of {} bytes, {} needed", scratch.bytes(), needed);
}

// The rows of one run, from the columns of `head` on.
HeadRows rows_of(const PartialAttention& block, const Tensor& rows, const TokenRun& run, Count head = 0) {
  const Count stride = rows.shape().columns();
  const Count first = run.row * stride + head * block.sequence.head_size;
  return {static_cast<std::byte*>(rows.raw()) + first * size_of(rows.dtype()), rows.dtype(),
          rows.shape().rows() / block.sequence.batch * stride, stride};
}

AttentionTask task_of(const PartialAttention& block, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                      const DropoutKey& dropout) {
  return {.shape = block.sequence,
          .queries = block.queries.count,
          .keys = block.keys.count,
          .first_query = block.queries.position,
          .first_key = block.keys.position,
          .q = rows_of(block, q, block.queries),
          .k = rows_of(block, kv, block.keys),
          .v = rows_of(block, kv, block.keys, block.sequence.kv_heads),
          .out = rows_of(block, out, block.queries),
          .lse = lse.f32() + block.queries.row,
          .lse_stride = lse.shape().columns(),
          .dropout = dropout};
}

// Kernels compute whole tiles: a block on the diagonal, of which half is seen, takes longer for each pair that counts. Of q,
// which may be the packed qkv, it does not count what is not read.
OpWork work_of(const PartialAttention& block, std::string_view off_diagonal, std::string_view on_diagonal, const Tensor& q,
               int products, std::initializer_list<const Tensor*> tensors) {
  AttentionShape queries = block.sequence;
  queries.tokens = block.queries.count;
  const Count pairs = visible_pairs(block.queries, block.keys);
  OpWork work = attention_work(q, queries, pairs, products);
  work.op = pairs < block.queries.count * block.keys.count ? on_diagonal : off_diagonal;
  for (const Tensor* tensor : tensors) work.bytes += static_cast<double>(tensor->bytes());
  return work;
}

// What becomes of two softmaxes over parts of the keys, of one query and head: the factors of their outputs, and the new lse.
struct Merged {
  float keep, take, lse;
};

KOKKOS_INLINE_FUNCTION Merged merged(float lse, float part_lse) {
  // With the larger of the two taken off, exp cannot overflow; a difference is -infinity where one side is nothing.
  const float largest = lse > part_lse ? lse : part_lse;
  if (largest == -std::numeric_limits<float>::infinity()) return {1.0f, 0.0f, lse};
  const float weight = std::exp(lse - largest), part_weight = std::exp(part_lse - largest);
  const float sum = weight + part_weight;
  return {weight / sum, part_weight / sum, largest + std::log(sum)};
}

// A row is one query of one head. The second kernel changes what all threads of the first have read.
void merge_kernels(const Exec& exec, const PartialAttention& block, Count rows_of_sample, float* y, float* lse, const float* part,
                   const float* part_lse) {
  const Count heads = block.sequence.heads, head_size = block.sequence.head_size;
  const Count queries = block.queries.count, first = block.queries.row, rows = block.sequence.batch * heads * queries;
  for_rows(
      exec, "cohort::attention_merge", rows, head_size, KOKKOS_LAMBDA(const Row& row) {
        const Count head = row.index() / queries, i = first + row.index() % queries;  // head: of all samples
        const Count at = (head / heads * rows_of_sample + i) * heads * head_size + head % heads * head_size;
        const Merged m = merged(lse[head * rows_of_sample + i], part_lse[head * rows_of_sample + i]);
        row.zip(
            head_size, [=](float& own, float other) { own = m.keep * own + m.take * other; }, in_out(y + at), in(part + at));
      });
  for_each_index(
      exec.device, "cohort::attention_merge_lse", rows, KOKKOS_LAMBDA(Count row) {
        const Count i = row / queries * rows_of_sample + first + row % queries;
        lse[i] = merged(lse[i], part_lse[i]).lse;
      });
}

}  // namespace

Count visible_pairs(const TokenRun& queries, const TokenRun& keys) {
  // Of the queries before `end`, counted from the first key on: one more key for each, then all keys.
  const auto pairs_before = [&](Count end) {
    const Count growing = std::clamp<Count>(end, 0, keys.count);
    return growing * (growing + 1) / 2 + std::max<Count>(end - keys.count, 0) * keys.count;
  };
  const Count first = queries.position - keys.position;
  return pairs_before(first + queries.count) - pairs_before(first);
}

Bytes partial_attention_scratch_bytes(const Exec& exec, const PartialAttention& block, DType dtype) {
  const auto tuned = tuned_scratch(exec).partial_attention;
  return tuned ? tuned(block, dtype) : 0;
}

void partial_attention_forward(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                               const Tensor& q, const Tensor& kv, const Tensor& scratch, const DropoutKey& dropout_key) {
  const OpNote note(
      "partial_attention_forward", {&q, &kv}, {&out, &lse},
      work_of(block, "partial_attention_forward", "diagonal_attention_forward", q, kForwardProducts, {&out, &lse, &kv}));
  check(exec, block, out, lse, q, kv, scratch);
  if (const auto kernel = tuned_kernels(exec).partial_attention_forward)
    return kernel(exec, block, out, lse, q, kv, scratch, dropout_key);
  portable_attention_forward(exec, task_of(block, out, lse, q, kv, dropout_key));
}

void attention_merge(const Exec& exec, const PartialAttention& block, const Tensor& out, const Tensor& lse,
                     const Tensor& part_out, const Tensor& part_lse) {
  const OpNote note("attention_merge", {&part_out, &part_lse}, {&out, &lse},
                    traffic(out, 2 * out.bytes() + lse.bytes() + part_out.bytes() + part_lse.bytes()));
  check_queries(block, out, lse);
  COHORT_CHECK(part_out.elements() == out.elements() && part_lse.elements() == lse.elements(), "attention merge: {} and {}",
               out.shape().str(), part_out.shape().str());
  if (const auto kernel = tuned_kernels(exec).attention_merge) return kernel(exec, block, out, lse, part_out, part_lse);
  merge_kernels(exec, block, lse.shape().columns(), out.f32(), lse.f32(), part_out.f32(), part_lse.f32());
}

void partial_attention_backward(const Exec& exec, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor& scratch, const DropoutKey& dropout_key) {
  const OpNote note("partial_attention_backward", {&dout, &out, &lse, &q, &kv}, {&dq, &dkv},
                    work_of(block, "partial_attention_backward", "diagonal_attention_backward", q, kBackwardProducts,
                            {&dq, &dkv, &dout, &lse, &kv}));
  check(exec, block, out, lse, q, kv, scratch);
  COHORT_CHECK(dq.shape().columns() == block.sequence.width() && dq.elements() == out.elements() &&
                   dkv.elements() == kv.elements() && dout.elements() == out.elements(),
               "attention block backward: dq {}, dkv {}, dout {}", dq.shape().str(), dkv.shape().str(), dout.shape().str());
  if (const auto kernel = tuned_kernels(exec).partial_attention_backward)
    return kernel(exec, block, dq, dkv, dout, out, lse, q, kv, scratch, dropout_key);
  AttentionTask task = task_of(block, out, lse, q, kv, dropout_key);
  task.dout = rows_of(block, dout, block.queries);
  task.dq = rows_of(block, dq, block.queries);
  task.dk = rows_of(block, dkv, block.keys);
  task.dv = rows_of(block, dkv, block.keys, block.sequence.kv_heads);
  task.add = true;
  portable_attention_backward(exec, task);
}

}  // namespace cohort::ops
