// Tensor parallelism over a group of ranks: what nn/tensor_parallel.hpp asks for, as collectives.
//
// For each block and micro-batch of R rows, forward all-reduces R C elements twice and backward twice (Shoeybi et al. 2019,
// section 3). With sequence parallelism each all-reduce is a reduce-scatter and an all-gather, which together move as much; and
// backward gathers each pair's input once more, R C elements twice, to spare the memory of keeping it (Korthikanti et al. 2022,
// section 4.2.2). With overlap the all-gathers before a product, and the reduce-scatters after one, are messages around a ring
// instead (nn/tensor_parallel.hpp), N - 1 of R C / N elements each; the all-gather that a weight gradient hides stays a
// collective. The embedding adds one sum forward, the head one sum backward and, a chunk of logits, three fp32 numbers a row.
//
// The rest of tensor parallelism is below this module, because layers are built by it and must not know who communicates:
//   nn/tensor_parallel.hpp             which part of a tensor a rank holds, own and all rows, sums of partial gradients
//   nn/{linear,attention}_layer.hpp, nn/vocabulary.hpp   how each layer is split: by outputs, by inputs, by heads, by tokens
//   ops/vocabulary_part.hpp            embedding and loss over a part of the vocabulary
//   config/tensor_parallel_rules.hpp   which models tp ranks can divide; the rules of one family stand in models/FAMILY/rules.cpp
//   mesh/mesh_shape.hpp                which ranks are a group
#pragma once

#include "comm/communicator.hpp"
#include "nn/tensor_parallel.hpp"
#include "parallel/ring_turn.hpp"

namespace cohort {

class TensorParallelGroup : public TensorParallel {
 public:
  /// `group` reaches the memory of the model's tensors and must outlive this. The rank in it is the part.
  explicit TensorParallelGroup(Communicator& group, bool sequence = false, bool overlap = false)
      : TensorParallel(group.size(), group.rank(), sequence, overlap), group_(group) {}

 protected:
  void do_sum(const Tensor& x, const Site& site) override;
  void do_max(const Tensor& x, const Site& site) override;
  void do_gather(const Tensor& all, const Tensor& own, const Site& site) override;
  void do_sum_scatter(const Tensor& own, const Tensor& terms, const Site& site) override;
  void do_pass_on(const Tensor& outgoing, const Tensor& incoming, const Site& site) override;
  void wait() override;

 private:
  void start(Request request);
  void become_busy();

  Communicator& group_;
  Request under_way_;
  RingTurn turn_;
  bool busy_ = false;
};

}  // namespace cohort
