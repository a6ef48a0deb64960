// A model in training on one rank: the model, its optimizer and the data-parallel strategy, and the step that moves them. The
// only place that picks a strategy. What is trained on, logged and saved is the business of trainer.hpp.
#pragma once

#include <memory>
#include <span>

#include "config/run_config.hpp"
#include "mesh/mesh.hpp"
#include "models/model.hpp"
#include "observe/timers.hpp"
#include "optim/adamw.hpp"
#include "parallel/data/data_parallel.hpp"

namespace cohort {

/// What one step did; all but own_loss are the same on every rank.
struct StepResult {
  double loss = 0.0;           // nats, mean over the valid targets of the global batch
  double own_loss = 0.0;       // the same over this rank's valid targets alone
  double gradient_norm = 0.0;  // before clipping
  double learning_rate = 0.0;
  Count valid_targets = 0;  // of the global batch
};

class Trainee {
 public:
  /// Builds the model with its initial values. `config` is validated and its vocabulary known. // Collective over: mesh
  Trainee(const RunConfig& config, const Mesh& mesh);

  /// One optimizer step from this rank's micro-batches. `global_valid_targets` is the number of valid targets over all ranks.
  /// Throws SharedError(training) if the loss or the gradient is not finite; the weights are then still those of the step before.
  /// // Collective over: dp
  StepResult step(Count step, std::span<const ModelInput> micro_batches, Count global_valid_targets, StepTimers& timers);

  Model& model() { return *model_; }
  DataParallel& strategy() { return *strategy_; }
  /// Names of the tensors that the optimizer keeps for each parameter.
  static std::vector<std::string> optimizer_slots() { return {"m", "v"}; }
  Arena& activations() { return activations_; }

 private:
  const RunConfig& config_;
  Communicator& group_;
  ops::Exec exec_;
  Arena activations_{"activations"};
  std::unique_ptr<Model> model_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<DataParallel> strategy_;
};

}  // namespace cohort
