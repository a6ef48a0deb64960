// Who holds which part of the model in a pipeline.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "models/decoder.hpp"
#include "parallel/pipeline/pipeline_schedule.hpp"
#include "parallel/pipeline/stage_ranges.hpp"

namespace cohort::pipeline {

/// Embedding and head in units of a block: by floating-point operations of forward and backward, which for the embedding are the
/// additions of positions and of gradients.
EndCosts end_costs(const ModelSection& model);

/// The chunks of the model that a rank holds: those of stage_ranges() at its virtual stages.
std::vector<ChunkSpec> chunks_of(const ModelSection& model, const Schedule& schedule, int rank);

/// For each rank the first whose chunks are of the same sizes, with the same layers checkpointed.
std::vector<int> like_ranks(const ModelSection& model, const Schedule& schedule);

/// Of ranks that are so alike the first, ascending: among them is the one that needs most memory, since a
/// rank has no more micro-batches in flight than those before it.
std::vector<int> heaviest_ranks(const ModelSection& model, const Schedule& schedule);

}  // namespace cohort::pipeline
