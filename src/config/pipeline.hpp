// What the run file says about a pipeline: its schedule, and what it does not go with.
#pragma once

#include "config/run_config.hpp"
#include "pipeline/schedule.hpp"

namespace cohort {

/// The schedule of parallel.pp stages, with `micro_batches` of a step and rank (train.accumulation). Throws Error(config) as
/// pipeline::check().
pipeline::Schedule schedule_of(const ParallelSection& config, Count micro_batches);

/// Throws Error(config), saying why, if parallel.pp > 1 and the pipeline cannot be: a schedule that does not fit its numbers,
/// fewer layers than stages, an mlp, or a data-parallel strategy that micro-batches under way do not go with. Pure.
void check_pipeline(const ModelSection& model, const ParallelSection& config, Count micro_batches);

}  // namespace cohort
