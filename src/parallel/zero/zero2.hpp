// ZeRO stage 2: gradients are divided as well. A group's whole gradient exists from its first use in backward until it was
// reduced; what stays is the own block, to which every micro-batch adds. So each micro-batch pays a reduce-scatter.
#pragma once

#include "parallel/zero/sharded.hpp"

namespace cohort {

/// The life of gradients that are divided, for stages 2 and 3.
class ShardedGradients : public Sharded {
 public:
  using Sharded::Sharded;
  /// Whole gradients that may wait for their reduction: one is on its way while the next is computed.
  static constexpr std::size_t kInFlight = 2;

  void pre_gradient(const Unit& unit) override;
  void end_pass() override;

 protected:
  /// Allocates the own block's gradients.
  void make_gradients(ShardGroup& group);
  void begin_gradients() override;
  void group_ready(ShardGroup& group) override;
  void reduced(ShardGroup& group) override;
  void finish_gradients(StepTimers&) override {}  // each pass has done it
};

class Zero2 : public ShardedGradients {
 public:
  Zero2(Model& model, Communicator& group, const ShardOptions& options);
  std::string_view name() const override { return "zero2"; }
  void weights_changed() override { gather_weights(); }
};

}  // namespace cohort
