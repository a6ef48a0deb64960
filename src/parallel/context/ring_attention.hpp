// Ring attention (Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"): causal attention over
// samples of which each rank of a group holds a part (sequence_split.hpp).
//
// Forward. The ranks stand in a ring. Each keeps its queries and passes keys and values on: at step s rank r has those of rank
// r - s, attends to what its queries see of them, and merges the result into that of the steps before; meanwhile it sends them to
// rank r + 1 and receives those of rank r - s - 1. After N - 1 turns all have seen all.
//
//   step        rank 0            rank 1            rank 2
//    0      own: 3 blocks     own: 3 blocks     own: 3 blocks       a chunk against a chunk: two of the three are diagonals
//    1      kv of 2: 2 blocks kv of 0: 2 blocks kv of 1: 2 blocks   each step the same work on every rank
//    2      kv of 1: 2 blocks kv of 2: 2 blocks kv of 0: 2 blocks
//
// Backward. Keys and values go round once more, and the sums of their gradients one step behind them: a rank adds its share to
// the sum that came with the keys, and passes it on; the last turn, the N-th, brings it home. All sums are fp32.
//
// Both messages of a turn, to the next rank and from the one before, are posted together, and by all ranks in one order; so no
// rank waits for one that waits for it, also where a rank's messages run one behind the other, as NCCL's do. While a step works
// on the keys at hand, the next ones are on their way.
//
// A rank sends, for R rows of 2 NKV HS = W elements: forward (N - 1) R W in the type of the activations; backward as much again,
// and N R W in fp32. Results are the same bits each run: the order of merging and adding is that of the ring.
#pragma once

#include "comm/communicator.hpp"
#include "nn/context_parallel.hpp"
#include "parallel/context/sequence_split.hpp"

namespace cohort {

class RingAttention : public ContextParallel {
 public:
  /// For samples of `tokens` tokens over the ranks of `group`, which is for tensors and must outlive this object. Throws
  /// Error(config) if the tokens do not divide.
  RingAttention(Communicator& group, Count tokens) : group_(group), split_(tokens, group.size()) {}

  const SequenceSplit& split() const { return split_; }
  ops::TokenRows rows() const override { return split_.rows_of(group_.rank()); }

  /// See ContextParallel. // Collective over: the group
  void attention_forward(const StepContext& context, const ops::AttentionShape& here, const Tensor& out, const Tensor& lse,
                         const Tensor& qkv, const ops::DropoutKey& dropout_key) const override;
  void attention_backward(const StepContext& context, const ops::AttentionShape& here, const Tensor& dqkv, const Tensor& dout,
                          const Tensor& out, const Tensor& lse, const Tensor& qkv,
                          const ops::DropoutKey& dropout_key) const override;

 private:
  Communicator& group_;
  SequenceSplit split_;
};

}  // namespace cohort
