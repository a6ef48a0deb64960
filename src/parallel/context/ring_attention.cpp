#include "parallel/context/ring_attention.hpp"

#include <algorithm>
#include <utility>

#include "nn/context.hpp"
#include "ops/copy_columns.hpp"
#include "ops/partial_attention.hpp"
#include "parallel/ring_turn.hpp"
#include "tensor/convert.hpp"

namespace cohort {
namespace {

// What both directions work with.
struct Rotation {
  Rotation(const StepContext& context, const SequenceSplit& split, const ops::AttentionShape& here, const Tensor& qkv)
      : whole(here) {
    COHORT_CHECK(here.tokens == split.tokens_of_rank(), "samples of {} tokens here, where {} over {} ranks give {}", here.tokens,
                 split.tokens(), split.ranks(), split.tokens_of_rank());
    whole.tokens = split.tokens();
    const Shape rows{here.batch, here.tokens, 2 * here.kv_heads * here.head_size};
    kv = context.take(rows);
    incoming = context.take(rows);
    ops::copy_columns(context.exec, kv, 0, qkv, here.width(), rows.columns());
    // Chunks are of one length, so any two will do.
    const ops::TokenRun chunk = split.rows_of(0).runs[0];
    scratch = context.take_bytes(ops::partial_attention_scratch_bytes(context.exec, {whole, chunk, chunk}, qkv.dtype()));
  }

  ops::PartialAttention block(const SequenceSplit::RunPair& runs) const { return {whole, runs.queries, runs.keys}; }

  ops::AttentionShape whole;
  Tensor kv, incoming;  // [B, R, 2 NKV HS] keys and values at hand, and those that come
  Tensor scratch;
};

// Whose keys and values are here at this step.
int owner_at(const Communicator& group, int step) { return (group.rank() + group.size() - step) % group.size(); }

}  // namespace

void RingAttention::attention_forward(const StepContext& context, const ops::AttentionShape& here, const Tensor& out,
                                      const Tensor& lse, const Tensor& qkv, const ops::DropoutKey& dropout_key) const {
  const Arena::Scope temporaries(*context.activations);
  Rotation ring(context, split_, here, qkv);
  const Tensor total = out.dtype() == DType::f32 ? out : context.take_fp32(out.shape());
  const Tensor part = context.take_fp32(out.shape());
  const Tensor part_lse = context.take_fp32(lse.shape());
  for (int step = 0; step < group_.size(); ++step) {
    RingTurn turn;
    if (step + 1 < group_.size()) turn = RingTurn(group_, ring.kv, ring.incoming);
    turn.progress();
    for (const SequenceSplit::RunPair& runs : split_.visible_runs(group_.rank(), owner_at(group_, step))) {
      const ops::PartialAttention block = ring.block(runs);
      // Every query sees something of the own early chunk, which comes first: it starts the result, the others are merged into
      // it.
      const bool starts = step == 0 && runs.keys == rows().runs[0];
      ops::partial_attention_forward(context.exec, block, starts ? total : part, starts ? lse : part_lse, qkv, ring.kv,
                                     ring.scratch, dropout_key);
      if (!starts) ops::attention_merge(context.exec, block, total, lse, part, part_lse);
      turn.progress();
    }
    turn.wait();
    std::swap(ring.kv, ring.incoming);
  }
  if (out.dtype() != DType::f32) convert(out, total);
}

void RingAttention::attention_backward(const StepContext& context, const ops::AttentionShape& here, const Tensor& dqkv,
                                       const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                                       const ops::DropoutKey& dropout_key) const {
  const Arena::Scope temporaries(*context.activations);
  Rotation ring(context, split_, here, qkv);
  const Tensor dq = context.take_fp32(out.shape());
  const Tensor own = context.take_fp32(ring.kv.shape());  // what this rank adds to the gradient of the keys and values at hand
  Tensor sums = context.take_fp32(ring.kv.shape());       // what the ranks up to this one have added
  Tensor next_sums = context.take_fp32(ring.kv.shape());
  dq.zero();
  sums.zero();
  RingTurn turn_of_sums;
  for (int step = 0; step < group_.size(); ++step) {
    RingTurn turn;
    if (step + 1 < group_.size()) turn = RingTurn(group_, ring.kv, ring.incoming);
    turn.progress();
    turn_of_sums.progress();
    own.zero();
    for (const SequenceSplit::RunPair& runs : split_.visible_runs(group_.rank(), owner_at(group_, step))) {
      ops::partial_attention_backward(context.exec, ring.block(runs), dq, own, dout, out, lse, qkv, ring.kv, ring.scratch,
                                      dropout_key);
      turn.progress();
      turn_of_sums.progress();
    }
    if (step > 0) {
      turn_of_sums.wait();
      std::swap(sums, next_sums);
    }
    ops::add(context.exec, sums, sums, own);
    turn.wait();
    std::swap(ring.kv, ring.incoming);
    if (group_.size() > 1) turn_of_sums = RingTurn(group_, sums, next_sums);
  }
  turn_of_sums.wait();
  if (group_.size() > 1) std::swap(sums, next_sums);  // home
  ops::copy_columns(context.exec, dqkv, 0, dq, 0, here.width());
  ops::copy_columns(context.exec, dqkv, here.width(), sums, 0, sums.shape().columns());
}

}  // namespace cohort
