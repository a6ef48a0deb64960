// The folder of a run's checkpoints: which there are, which is the newest, which may go. All of it by names and renames, so that
// a process killed at any moment leaves every complete checkpoint complete. One process saves in a run folder at a time; any may
// read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "checkpoint/save_options.hpp"

namespace cohort {

struct StoredCheckpoint {
  Count step = 0;
  std::filesystem::path folder;
};

/// The complete checkpoints of a run (those with a manifest), by rising step. Empty if there is no such run. Changes nothing.
std::vector<StoredCheckpoint> list_checkpoints(const std::filesystem::path& run_folder);

/// The folder of the newest complete checkpoint of a run.
std::optional<std::filesystem::path> find_latest(const std::filesystem::path& run_folder);

/// What a user names: a checkpoint's folder (returned as it is), or a run's folder (its checkpoint of `step`, without it the
/// newest). Error (checkpoint) that lists the checkpoints that there are; Error (usage): a checkpoint's folder, and another step.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path, std::optional<Count> step = std::nullopt);

/// Puts the finished `temporary` folder in the place of checkpoint `step`, replacing one that is there. When it returns, the
/// checkpoint is on disk. At every moment before, the former checkpoint of that step (if any) counts. What stands there and is no
/// complete checkpoint, or holds what is not Cohort's, is set aside (set_aside.hpp). Throws Error(io).
void publish_checkpoint(const std::filesystem::path& run_folder, const std::filesystem::path& temporary, Count step);

/// Clears away what killed saves left behind; with `only_step`, what those of this step did. For the one process that saves:
/// anyone else would destroy a save in progress.
void tidy_checkpoints(const std::filesystem::path& run_folder, std::optional<Count> only_step = std::nullopt);

/// Deletes a checkpoint of the run at once as far as readers can see: it loses its name first. Throws Error(io) if it cannot, if
/// the folder of a save of the same step is in the way, or if it holds what is not Cohort's (folders.hpp): then it stays.
void remove_checkpoint(const std::filesystem::path& run_folder, const StoredCheckpoint& checkpoint);

/// Deletes the checkpoints up to `step`, which was just written, that the retention does not keep (see apply_retention() in
/// retention.hpp). Later steps, left by a run that was taken back to an earlier checkpoint, are not ours to judge and stay.
/// Training states are read only for keep_best, since each costs opening a file; without it every checkpoint with a manifest
/// counts as sound. Throws Error(io).
void prune_checkpoints(const std::filesystem::path& run_folder, Count step, const Retention& retention);

/// Throws if a fresh start in this run would destroy what is not its own: Error(checkpoint) names a step without a manifest,
/// which may be on its way from another disk, Error(usage) what is not Cohort's in a checkpoint's folder.
void require_removable_checkpoints(const std::filesystem::path& run_folder);

/// Deletes the checkpoints of a run, if require_removable_checkpoints() lets it. RUN/checkpoints stays (it may be a link, or a
/// mount point), and so does whatever else is in it. A kill in the middle leaves fewer checkpoints, but no half one.
void remove_checkpoints(const std::filesystem::path& run_folder);

}  // namespace cohort
