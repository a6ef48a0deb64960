// ZeRO stage 1: the optimizer's state and the fp32 weights are divided. Traffic of a step: a reduce-scatter of the gradients and
// an all-gather of the weights, together what an all-reduce sends (Rajbhandari et al. 2020, section 7.1).
#pragma once

#include "parallel/zero/sharded.hpp"

namespace cohort {

class Zero1 : public Sharded {
 public:
  Zero1(Model& model, Communicator& group, const ShardOptions& options);
  std::string_view name() const override { return "zero1"; }
  void weights_changed() override { gather_weights(); }
  void grad_ready(Parameter& parameter) override;

 protected:
  void begin_gradients() override;
  void group_ready(ShardGroup& group) override { start_reduction(group); }
  void finish_gradients(StepTimers& timers) override;
};

}  // namespace cohort
