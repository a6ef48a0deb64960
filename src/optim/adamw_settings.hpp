// From the run file's [optimizer] to the arguments of ops::adamw.
#pragma once

#include "config/run_config.hpp"
#include "ops/adamw.hpp"
#include "tensor/owned.hpp"

namespace cohort {

/// The numbers of a step; `step` is 0 for the first.
ops::AdamWStep adamw_step(const OptimizerSection& config, double learning_rate, Count step);

/// Elements [begin, end) of a segment as ops::AdamWRanges on the host, which count from `begin`: matrices decay, norms and biases
/// do not. Neighbouring pieces with the same decay share a range.
Tensor decay_ranges(const OwnedSegment& segment, double weight_decay, Count begin, Count end);

}  // namespace cohort
