// What the stages of ZeRO have in common. Data parallelism in which every rank keeps the fp32 weights and the optimizer's state
// of its shard only: gradients are reduced to the shard that owns them, the optimizer updates the shard, and the new weights are
// gathered. The stages differ in what else is divided:
//   stage 1  nothing: weights that layers read, and gradients, are whole on every rank
//   stage 2  gradients, reduced as soon as backward is done with a group
//   stage 3  and the weights that layers read: gathered before a unit's use, given up after it
// With fewer shard ranks than ranks (hybrid sharding, as in PyTorch FSDP, Zhao et al. 2023), neighbours share one copy of the
// state and the copies are replicas: gradients are then summed over these, too.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "parallel/data/data_parallel.hpp"
#include "parallel/zero/shard_group.hpp"
#include "tensor/buffer_pool.hpp"

namespace cohort {

struct ShardOptions {
  std::string wrap = "block";    // model | block | layer
  int shard_ranks = 0;           // ranks of one copy of the state; 0 = all
  std::uint64_t seed = 0;        // of the initial values
  DType reduction = DType::f32;  // in which gradients are summed
  bool values_on_host = false;   // the optimizer, with the fp32 values that it updates, was offloaded
  bool compute_on_host = false;  // stage 3: so was the shard of the weights that layers read
};

class Sharded : public DataParallel {
 public:
  /// `model` is declared and has no memory yet; `group` is all ranks with the same weights. // Collective over: group
  Sharded(Model& model, Communicator& group, const ShardOptions& options);

  std::vector<OwnedSegment> owned() override;
  Communicator* shard_group() override { return shards_; }
  void grad_ready(Parameter& parameter) override;
  /// Of the tensors that come and go.
  Bytes buffer_bytes() const { return pool_.bytes(); }

 protected:
  /// fp32 values of every group's own block, with their initial values, beside the `compute` of the group or of the own block.
  void make_values(ShardGroup& group, const Tensor& own_compute);
  /// A group's gradients are complete in this pass: called from grad_ready.
  virtual void group_ready(ShardGroup& group) = 0;

  /// group.gradient is summed over all ranks, in the background; finish_reduction() then leaves the sum in the group's own block
  /// of it, and tells reduced(). Oldest first.
  void start_reduction(ShardGroup& group);
  void finish_reduction();
  bool reducing() const { return !reductions_.empty(); }
  std::size_t reductions() const { return reductions_.size(); }
  virtual void reduced(ShardGroup&) {}

  /// compute <- all ranks' blocks, in the background; `own` may be the own block of `compute`. // Collective over: shards
  Request gather(const ShardGroup& group, const Tensor& compute, const Tensor& own);
  /// For who gathers while layers compute: no multiprocessor shall do it, where that can be. // Collective over: shards
  void gather_beside_layers();

  /// Of all groups, whose `compute` are whole. // Collective over: shards
  void gather_weights();

  const std::vector<std::size_t>& groups_of(const Unit& unit) const;

  std::vector<ShardGroup> groups_;
  ShardOptions options_;
  BufferPool pool_;

 private:
  struct Reduction {
    ShardGroup* group;
    Tensor rounded;  // the gradients in 16 bits, if they are summed so
    Request request;
  };
  Communicator* shards_;                            // who own one model between them
  std::unique_ptr<Communicator> own_shards_;        // if they are not the whole group
  std::unique_ptr<Communicator> replicas_;          // who own the same block; null if there is one copy
  std::vector<std::vector<std::size_t>> of_units_;  // groups_of
  std::vector<std::size_t> group_of_;               // by parameter index
  std::vector<std::size_t> waiting_for_;            // gradients of each group that are not ready in this pass
  std::deque<Reduction> reductions_;
};

}  // namespace cohort
