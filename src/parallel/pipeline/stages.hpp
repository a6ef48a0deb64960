// From the run file to the stages of a pipeline: its schedule, who holds which part of the model, and what does not go together.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "models/decoder.hpp"
#include "parallel/pipeline/schedule.hpp"
#include "parallel/pipeline/stage_ranges.hpp"

namespace cohort::pipeline {

/// The schedule of parallel.pp stages, with `micro_batches` of a step and rank (train.accumulation). Throws Error(config) as
/// check(Schedule).
Schedule schedule_of(const ParallelSection& config, Count micro_batches);

/// Throws Error(config), saying why, if parallel.pp > 1 and the pipeline cannot be: a schedule that does not fit its numbers,
/// fewer layers than stages, an mlp, or a data-parallel strategy that micro-batches under way do not go with. Pure.
void check_pipeline(const ModelSection& model, const ParallelSection& config, Count micro_batches);

/// Embedding and head in units of a block: by floating-point operations of forward and backward, which for the embedding are the
/// additions of positions and of gradients.
EndCosts end_costs(const ModelSection& model);

/// The chunks of the model that a rank holds: those of stage_ranges() at its virtual stages.
std::vector<ChunkSpec> chunks_of(const ModelSection& model, const Schedule& schedule, int rank);

}  // namespace cohort::pipeline
