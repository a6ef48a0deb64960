// Faults in a run's communication and optimizer, planted under a layout that the product itself builds: the world that it is
// given hands its groups on, and one of their operations does what people have really got wrong.
#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "train/proof.hpp"

namespace cohort::test {

enum class Fault {
  none,                 // an honest wrapper
  no_reduction,         // gradients stay each rank's own
  average,              // divided by the ranks, though the loss has been divided by the targets
  dropped_rank,         // what the last rank has computed of the gradient is left out
  wrong_shard,          // ZeRO: a rank gets the reduced gradients of its neighbour's shard
  stale_weights,        // ZeRO: new weights stay with their owners
  tied_weight_skipped,  // pipelines: the two ends keep their own part of the tied embedding's gradient
  partial_sums,         // tensor parallelism: partial results are not summed
  norm_counted_twice,   // the sum of squares is summed over the ranks once more
  wrong_decay,          // weight decay acts on norms and biases, not on matrices
  wrong_part            // whole matrices: what goes to their owners, or comes back, is the first element over and over
};
inline constexpr Fault kFaults[] = {
    Fault::no_reduction,        Fault::average,      Fault::dropped_rank,       Fault::wrong_shard, Fault::stale_weights,
    Fault::tied_weight_skipped, Fault::partial_sums, Fault::norm_counted_twice, Fault::wrong_decay, Fault::wrong_part};
const char* name_of(Fault fault);

/// Of a layout to be proved: whether the fault can occur in it, on any of its ranks.
bool applies(Fault fault, const RunConfig& config);

/// `inner`, which must outlive it, with the fault in all groups that are split from it for this layout.
std::unique_ptr<Communicator> with_fault(Communicator& inner, Fault fault, const RunConfig& config);

/// What prove() is to call after each step: for Fault::wrong_decay, else nothing.
AfterStep after_step_of(Fault fault, const RunConfig& config);

}  // namespace cohort::test
