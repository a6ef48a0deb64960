// The folder of a run: resolved run file, metrics.jsonl, trace.json, logs/rank_N/train.log, checkpoints/, and what else Cohort
// writes there (flight/, faults/, lock). The file RUN/cohort-run says that it is one: in a folder without it nothing is replaced
// or removed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"

namespace cohort {

/// What to do with a run folder that already holds checkpoints.
enum class ExistingRun {
  refuse,         // the default: nothing of a run is lost by starting another by mistake
  overwrite,      // start over: the old checkpoints, logs and metrics are deleted
  resume,         // from the newest checkpoint; an error if there is none
  resume_if_any,  // resume if there is a checkpoint, start if there is none: for jobs that are requeued or chained
  resume_from     // from the checkpoint that is named
};

/// How a run resumes.
struct ResumeOptions {
  std::string from;         // resume_from: a step of the run, or the path of a checkpoint or of a run
  bool falls_back = false;  // past damaged checkpoints, to the newest that is sound
};

/// Prepares the folder on rank 0 and returns on all ranks the checkpoints to resume from, the newest first: the first that is
/// sound is meant, and without `falls_back` there is but one. Empty: a fresh start, for which what an earlier run left is
/// deleted: by name, only what Cohort writes. Links and mount points in the folder stay. Errors, before anything is changed:
/// usage: the folder is not a run's and holds what a run would write; a run that is there (refuse); checkpoint: no checkpoint to
/// resume from; a step without a manifest, which may be on its way from another disk. // Collective over: world
std::vector<std::filesystem::path> prepare_run_directory(Communicator& world, const std::filesystem::path& folder,
                                                         ExistingRun existing, const ResumeOptions& options = {});

/// Takes the folder's mark away if there is nothing beside it: the run ended before it wrote anything.
void unmark_if_unused(const std::filesystem::path& folder);

/// Writes the resolved run file RUN/run.toml. For rank 0.
void write_resolved_run_file(const RunConfig& config);

}  // namespace cohort
