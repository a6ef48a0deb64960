// What the proof runs (train/proof.hpp): the steps of a layout with their batches, and the one rank that goes beside a layout.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/load/shards.hpp"
#include "mesh/mesh.hpp"
#include "train/data_setup.hpp"
#include "train/step_batches.hpp"
#include "train/train_step.hpp"

namespace cohort {

/// All elements of the model's tensors, one behind the other, and where each lies, by its dataset's name.
struct WholeTensors {
  struct Place {
    std::size_t begin = 0, elements = 0;
  };
  std::map<std::string, Place> places;
  std::vector<float> elements;

  std::span<float> at(const std::string& tensor) {
    return std::span(elements).subspan(places.at(tensor).begin, places.at(tensor).elements);
  }
  std::span<const float> at(const std::string& tensor) const {
    return std::span(elements).subspan(places.at(tensor).begin, places.at(tensor).elements);
  }
};

/// A run without logs, files and validation.
class ProofRun {
 public:
  // Collective over: group
  ProofRun(const RunConfig& config, const RunData& data, Communicator& group);

  /// Reads the samples of a step (0 is the first), which must be done or over before the next. // Collective over: group
  StepInput load(Count step);
  StepResult step(Count step) { return train_step_.run(load(step), timers_); }
  TrainStep& train_step() { return train_step_; }
  StepTimers& timers() { return timers_; }
  /// Only of the values. Gradients have the same names.
  std::vector<StateShard> weights() const;
  std::vector<StateShard> gradients() const { return train_step_.gradient_shards(); }

 private:
  const RunConfig config_;
  Mesh mesh_;
  TrainStep train_step_;
  Sampler sampler_;
  StepBatches batches_;
  StepTimers timers_;
};

/// What one rank makes of a step, known to all ranks.
struct OneRankStep {
  double loss = 0.0;
  double norm = 0.0;
  bool skipped = false;    // loss or gradient were not finite
  WholeTensors gradients;  // at the layout's weights
  WholeTensors weights;    // of one optimizer, from the layout's weights and gradients
};

/// One rank that goes beside a layout: it runs on rank 0 of the layout's ranks, the others wait for what it says.
class OneRankBeside {
 public:
  // Collective over: group
  OneRankBeside(const RunConfig& run, const RunData& data, Communicator& group);

  /// The step that the layout has just done, from the weights that it had before. // Collective over: group
  OneRankStep step(Count step, const ProofRun& layout, bool layout_skipped);

 private:
  WholeTensors copy_of(const std::vector<StateShard>& whole) const;
  WholeTensors gather(const std::vector<StateShard>& shards) const;

  Communicator& group_;
  std::unique_ptr<Communicator> self_;
  std::unique_ptr<ProofRun> run_;  // null but on rank 0
  WholeTensors zeros_;             // all tensors
};

}  // namespace cohort
