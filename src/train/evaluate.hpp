// The mean loss over a validation split: the sum over all valid tokens divided by their number, whatever the number of ranks.
#pragma once

#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "models/model.hpp"
#include "tensor/arena.hpp"

namespace cohort {

struct Evaluation {
  double loss = 0.0;  // nats, mean over the valid targets
  Count targets = 0;  // valid targets
  Count samples = 0;
};

/// Each rank takes its share of the split's samples, `micro_batch` at a time; `limit` micro-batches over all ranks, 0 = the whole
/// split. `hooks` are those
/// of the strategy that keeps the parameters. Activations go into `activations`. // Collective over: group
Evaluation evaluate(const ops::Exec& exec, Model& model, Hooks& hooks, Arena& activations, const Dataset& dataset,
                    Communicator& group, Count micro_batch, Count limit);

}  // namespace cohort
