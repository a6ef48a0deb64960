// Data parallelism by hand, without a second process: two replicas of the model in one rank. Each takes half of every micro-batch
// and computes its own gradient; we add the second's to the first's, step the first, and copy its weights to the second. What a
// communicator does between ranks is done here with a loop and a copy.
#pragma once

#include <memory>

#include "parallel/data/data_parallel.hpp"

namespace cohort {

class Manual : public DataParallel {
 public:
  /// `replica` must have the same shape as `model`; its weights are set to the model's.
  Manual(Model& model, Communicator& group, std::unique_ptr<Model> replica);
  std::string_view name() const override { return "manual"; }
  void weights_changed() override;

 protected:
  void run_micro_batch(const StepContext& context, const ModelInput& input, float gradient_scale, StepTimers& timers) override;
  void finish_gradients(StepTimers& timers) override;

 private:
  std::unique_ptr<Model> replica_;
};

}  // namespace cohort
