// The micro-batches of one optimizer step on one rank.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "data/batch.hpp"
#include "data/sampler.hpp"
#include "train/input_buffer.hpp"

namespace cohort {

class StepBatches {
 public:
  StepBatches(const Dataset& dataset, const Sampler& sampler, const TrainSection& train, int dp_rank, int dp_size,
              DeviceKind device);

  /// Reads the samples of step `step` (0 is the first) that belong to this rank. On a GPU this may be called while
  /// the step before is still running.
  void load(Count step);

  /// Of the step that was loaded, where the model runs; valid until the next load().
  std::span<const ModelInput> inputs() const { return inputs_; }
  /// Targets that count on this rank.
  Count valid_targets() const { return valid_targets_; }
  /// Samples on this rank, in the order in which they are used.
  std::vector<Count> sample_ids() const;

 private:
  const Dataset& dataset_;
  const Sampler& sampler_;
  Count micro_batch_;
  int dp_rank_;
  int dp_size_;
  std::vector<Batch> batches_;             // [accumulation]
  std::vector<std::vector<Count>> slots_;  // [accumulation][micro_batch]
  std::vector<InputBuffer> buffers_;       // [accumulation]
  std::vector<ModelInput> inputs_;
  Count valid_targets_ = 0;
};

}  // namespace cohort
