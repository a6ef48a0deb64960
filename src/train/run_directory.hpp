// The folder of a run: resolved run file, metrics.jsonl, logs/rank_N/train.log, checkpoints/.
#pragma once

#include <filesystem>
#include <optional>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"

namespace cohort {

/// What to do with a run folder that already holds checkpoints.
enum class ExistingRun {
  refuse,        // the default: nothing of a run is lost by starting another by mistake
  overwrite,     // start over: the old checkpoints, logs and metrics are deleted
  resume,        // go on from the newest checkpoint; an error if there is none
  resume_if_any  // go on if there is a checkpoint, start if there is none: for jobs that are requeued or chained
};

/// Prepares the folder on rank 0 (deleting only what a run writes), and returns on all ranks the checkpoint to go on from, if
/// any.
/// // Collective over: world
std::optional<std::filesystem::path> prepare_run_directory(Communicator& world, const std::filesystem::path& folder,
                                                           ExistingRun existing);

/// Writes the resolved run file RUN/run.toml. For rank 0.
void write_resolved_run_file(const RunConfig& config);

}  // namespace cohort
