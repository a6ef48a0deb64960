// The mean loss over a validation split: the sum over all valid tokens divided by their number, whatever the number of ranks.
#pragma once

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
  BatchShare share;                           // of each global micro-batch
  const DividedSequence* sequence = nullptr;  // if samples are cut
  Communicator* stages = nullptr;             // of the pipeline, of which the last has the loss
};

/// Each rank takes its share of the split's samples, `micro_batch` at a time; `limit` micro-batches over all ranks, 0 = the whole
/// split. `group` are the ranks with different shares. // Collective over: group
Evaluation evaluate(const EvaluationContext& setup, Predictor& model, const Dataset& dataset, Communicator& group,
                    Count micro_batch, Count limit);

}  // namespace cohort
