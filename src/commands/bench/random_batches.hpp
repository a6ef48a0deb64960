// The micro-batches of a step that is timed: random tokens, since speed does not depend on what they say.
#pragma once

#include <span>
#include <vector>

#include "config/run_config.hpp"
#include "train/input_buffer.hpp"
#include "train/step_batches.hpp"
#include "train/train_step.hpp"

namespace cohort {

class RandomBatches {
 public:
  RandomBatches(const RunConfig& config, const BatchShare& share);
  /// As many as a step takes, all alike.
  std::span<const ModelInput> inputs() const { return inputs_; }
  /// A step of them.
  StepInput step(Count step) const { return {step, inputs_, own_targets_, all_targets_}; }

 private:
  // Four documents a sample.
  void pack(Count context);

  InputBuffer buffer_;
  Batch batch_;
  std::vector<Count> slots_;
  std::vector<ModelInput> inputs_;
  Count own_targets_, all_targets_;
};

}  // namespace cohort
