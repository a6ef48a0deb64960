// What the proof runs (train/proof.hpp): a trainee with its batches, and the one rank that goes beside a layout.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/shards.hpp"
#include "mesh/mesh.hpp"
#include "train/data_setup.hpp"
#include "train/step_batches.hpp"
#include "train/trainee.hpp"

namespace cohort {

/// All elements of each tensor, by its dataset's name, in the order of the model's names.
using WholeTensors = std::map<std::string, std::vector<float>>;

/// A run without logs, files and validation.
class ProofRun {
 public:
  /// // Collective over: group
  ProofRun(const RunConfig& config, const RunData& data, Communicator& group);

  /// Reads the samples of a step (0 is the first), which must be done or over before the next. // Collective over: group
  StepInput load(Count step);
  StepResult step(Count step) { return trainee_.step(load(step), timers_); }
  Trainee& trainee() { return trainee_; }
  StepTimers& timers() { return timers_; }
  /// Of the values alone. Gradients have the same names.
  std::vector<StateShard> weights() const;
  std::vector<StateShard> gradients() const { return trainee_.gradient_shards(); }

 private:
  const RunConfig config_;
  Mesh mesh_;
  Trainee trainee_;
  Sampler sampler_;
  StepBatches batches_;
  StepTimers timers_;
};

/// What one rank makes of a step, known to all ranks.
struct OneRankStep {
  double loss = 0.0;
  double norm = 0.0;
  double skipped = 0.0;    // 1: loss or gradient were not finite
  WholeTensors gradients;  // at the layout's weights
  WholeTensors weights;    // of AdamW, from the layout's weights and gradients
};

/// One rank that goes beside a layout: it runs on rank 0 of the layout's ranks, the others wait for what it says.
class OneRankBeside {
 public:
  /// // Collective over: group
  OneRankBeside(const RunConfig& run, const RunData& data, Communicator& group);

  /// The step that the layout has just done, from the weights that it had before. // Collective over: group
  OneRankStep step(Count step, const ProofRun& layout, bool layout_skipped);

 private:
  void compute(Count step, OneRankStep& result);
  WholeTensors gather(const std::vector<StateShard>& shards) const;

  Communicator& group_;
  std::unique_ptr<Communicator> self_;
  std::unique_ptr<ProofRun> run_;  // null but on rank 0
  WholeTensors sizes_;             // of all tensors: zeros
};

}  // namespace cohort
