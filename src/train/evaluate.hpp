// The mean loss over a validation split: the sum over all valid tokens divided by their number, whatever the number of ranks.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "models/predictor.hpp"
#include "tensor/arena.hpp"
#include "train/step_batches.hpp"

namespace cohort {

struct Evaluation {
  double loss = 0.0;  // nats, mean over the valid targets
  Count targets = 0;  // valid targets
  Count samples = 0;
};

/// What evaluate() needs of a run beside its model and data.
struct EvaluationContext {
  ops::Exec exec;
  Hooks& hooks;  // of the strategy that keeps the parameters
  Arena& activations;
  BatchShare share;                                                     // of each global micro-batch
  const ContextParallel* sequence = nullptr;                            // if samples are cut
  Communicator* stages = nullptr;                                       // of the pipeline, of which the last has the loss
  std::function<void(const std::string&, const Tensor&)> inspect = {};  // as in StepContext
};

/// Each rank takes its share of the split's samples, `micro_batch` at a time; `limit` samples over all ranks, 0 = the whole
/// split. `group` are the ranks with different shares. The loss may be NaN or infinite: see require_finite().
// Collective over: group, and the ranks that hold parts of the model
Evaluation evaluate(const EvaluationContext& setup, Predictor& model, const Dataset& dataset, Communicator& group,
                    Count micro_batch, Count limit);

/// Throws SharedError(training) if the loss is NaN or infinite on any rank: evaluates again to name the rank and the first unit
/// whose output is not finite. The other arguments are those of evaluate(). `what` begins the message. // Collective over: world
void require_finite(Communicator& world, const std::string& what, const Evaluation& evaluation, EvaluationContext setup,
                    Predictor& model, const Dataset& dataset, Communicator& group, Count micro_batch, Count limit);

}  // namespace cohort
