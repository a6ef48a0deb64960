// The micro-batches of one optimizer step on one rank.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "data/batch.hpp"
#include "data/sampler.hpp"
#include "mesh/mesh.hpp"
#include "parallel/context/sequence_split.hpp"
#include "train/input_buffer.hpp"

namespace cohort {

/// Which part of each global batch a rank works on: some of the samples (dp), and of these some of the tokens (cp).
struct BatchShare {
  int rank = 0, ranks = 1;                  // among those with other samples
  const SequenceSplit* sequence = nullptr;  // null: samples are whole
  int part = 0;                             // of the sequence

  /// Of this rank. `sequence` is that of its ring attention, or null.
  static BatchShare of(const Mesh& mesh, const SequenceSplit* sequence);
  /// Leaves of whole samples the tokens of this rank.
  void cut(Batch& batch) const;
};

class StepBatches {
 public:
  StepBatches(const Dataset& dataset, const Sampler& sampler, const TrainSection& train, const BatchShare& share,
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
  BatchShare share_;
  std::vector<Batch> batches_;             // [accumulation]
  std::vector<std::vector<Count>> slots_;  // [accumulation][micro_batch]
  std::vector<InputBuffer> buffers_;       // [accumulation]
  std::vector<ModelInput> inputs_;
  Count valid_targets_ = 0;
};

}  // namespace cohort
