#include "checkpoint/store/store.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/folders.hpp"
#include "checkpoint/store/missing_files.hpp"
#include "checkpoint/store/retention.hpp"
#include "checkpoint/store/set_aside.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string steps_text(const std::vector<StoredCheckpoint>& checkpoints) {
  std::vector<std::string> names;
  for (const StoredCheckpoint& checkpoint : checkpoints) names.push_back(checkpoint.folder.filename().string());
  return join(names);
}

void look_into(const StoredCheckpoint& checkpoint, RetentionCandidate& candidate) {
  try {
    candidate.validation_loss = validation_loss_of(CheckpointReader(checkpoint.folder).state().validation_loss);
  } catch (const Error&) {
    candidate.sound = false;
  }
}

// Takes away a checkpoint that another has replaced; one that holds something that is not Cohort's is kept.
void retire(const fs::path& run_folder, const fs::path& folder, Count step) {
  if (stranger_in(folder)) {
    set_aside(run_folder, folder, step);
  } else {
    remove_own_files(folder);
  }
}

const StoredCheckpoint* find_step(const std::vector<StoredCheckpoint>& checkpoints, Count step) {
  const auto is_it = [&](const StoredCheckpoint& checkpoint) { return checkpoint.step == step; };
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(), is_it);
  return found == checkpoints.end() ? nullptr : &*found;
}

// The checkpoint that a person named by its step.
fs::path checkpoint_of_step(const fs::path& path, Count step) {
  if (is_complete(path)) {
    const Count own = read_manifest(path).step;
    if (own == step) return path;
    fail(ExitCode::usage, "{} is the checkpoint of step {}, not {}: name the folder of its run, or leave out the step",
         path.string(), own, step);
  }
  const std::vector<StoredCheckpoint> found = list_checkpoints(path);
  if (const StoredCheckpoint* checkpoint = find_step(found, step)) return checkpoint->folder;
  if (found.empty()) return resolve_checkpoint(path);  // which says what is wrong
  fail(ExitCode::checkpoint, "{} has no complete checkpoint of step {}; it has these: {}", path.string(), step,
       steps_text(found));
}

}  // namespace

std::vector<StoredCheckpoint> list_checkpoints(const fs::path& run_folder) {
  const fs::path folder = checkpoints_folder(run_folder);
  std::vector<StoredCheckpoint> found;
  for (const std::string& name : names_in(folder)) {
    const auto step = step_of_name(name);
    const auto replaced = step_of_replaced(name);
    if (step && is_complete(folder / name)) found.push_back({*step, folder / name});
    if (replaced && is_complete(folder / name) && !is_complete(folder / step_name(*replaced)))
      found.push_back({*replaced, folder / name});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::optional<fs::path> find_latest(const fs::path& run_folder) {
  const std::vector<StoredCheckpoint> found = list_checkpoints(run_folder);
  if (found.empty()) return std::nullopt;
  return found.back().folder;
}

fs::path resolve_checkpoint(const fs::path& path, std::optional<Count> step) {
  if (step) return checkpoint_of_step(path, *step);
  if (is_complete(path)) return path;
  if (const auto latest = find_latest(path)) return *latest;
  // Not a run; perhaps a step that a run does not have: RUN/checkpoints/step_N.
  const fs::path run_folder = fs::absolute(path).lexically_normal().parent_path().parent_path();
  const std::vector<StoredCheckpoint> others = list_checkpoints(run_folder);
  std::error_code error;
  std::string state = "no such folder";
  if (fs::is_directory(path, error)) {
    state = "it has no complete checkpoint" + missing_sources_text(path);
  } else if (fs::exists(path, error)) {
    state = "it is a file" + missing_sources_text(path.parent_path());
  }
  if (!others.empty()) {
    fail(ExitCode::checkpoint, "{}: {}; the run has these: {}", path.string(), state, steps_text(others));
  }
  fail(ExitCode::checkpoint, "{}: {}; name a run's folder, or RUN/checkpoints/step_NNNNNNNN", path.string(), state);
}

void publish_checkpoint(const fs::path& run_folder, const fs::path& temporary, Count step) {
  const fs::path folder = checkpoints_folder(run_folder);
  const fs::path final_folder = folder / step_name(step);
  const fs::path replaced = folder / replaced_name(step);
  // A folder cannot be renamed over one that is not empty. The former one steps aside under a name that still counts; what is no
  // complete checkpoint was not written by this run, and may still be on its way from another disk.
  std::error_code error;
  const bool replaces = is_complete(final_folder);
  if (replaces) {
    rename_folder(final_folder, replaced);
  } else if (fs::exists(fs::symlink_status(final_folder, error))) {
    set_aside(run_folder, final_folder, step);
  }
  commit_file(temporary, final_folder);
  if (replaces) retire(run_folder, replaced, step);
}

void tidy_checkpoints(const fs::path& run_folder, std::optional<Count> only_step) {
  const fs::path folder = checkpoints_folder(run_folder);
  const auto is_meant = [&](std::optional<Count> step) { return step && (!only_step || step == only_step); };
  for (const std::string& name : names_in(folder)) {
    if (is_meant(step_of_temporary(name))) remove_unfinished_save(folder / name);
    if (const auto step = step_of_replaced(name); is_meant(step)) {
      const fs::path final_folder = folder / step_name(*step);
      if (is_complete(folder / name) && !is_complete(final_folder)) {
        std::error_code error;
        const bool in_the_way = fs::exists(fs::symlink_status(final_folder, error));
        if (in_the_way) set_aside(run_folder, final_folder, *step);  // it is no checkpoint, and not this run's
        rename_folder(folder / name, final_folder);
      } else {
        retire(run_folder, folder / name, *step);
      }
    }
  }
}

void remove_checkpoint(const fs::path& run_folder, const StoredCheckpoint& checkpoint) {
  if (const auto stranger = stranger_in(checkpoint.folder)) {
    fail(ExitCode::io, "{} is kept: {} was not written by Cohort; move that away if the checkpoint can be deleted",
         checkpoint.folder.string(), stranger->string());
  }
  // Half a checkpoint with a manifest must never be seen: it first loses its name.
  const fs::path doomed = checkpoints_folder(run_folder) / temporary_name(checkpoint.step);
  rename_folder(checkpoint.folder, doomed);
  remove_own_files(doomed);
}

void prune_checkpoints(const fs::path& run_folder, Count step, const Retention& retention) {
  if (retention.keep <= 0) return;
  std::vector<StoredCheckpoint> found = list_checkpoints(run_folder);
  std::erase_if(found, [&](const StoredCheckpoint& checkpoint) { return checkpoint.step > step; });
  std::vector<RetentionCandidate> candidates;
  for (const StoredCheckpoint& checkpoint : found) {
    candidates.push_back({.step = checkpoint.step});
    if (retention.keep_best) look_into(checkpoint, candidates.back());
  }
  const std::vector<RetentionVerdict> verdicts = apply_retention(candidates, retention);
  std::optional<Error> kept;  // by something in it that is not Cohort's; the others go
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (verdicts[i].stays) continue;
    try {
      remove_checkpoint(run_folder, found[i]);
    } catch (const Error& error) {
      kept = error;
    }
  }
  if (kept) throw Error(*kept);
}

void require_removable_checkpoints(const fs::path& run_folder) {
  const std::vector<StoredCheckpoint> incomplete = incomplete_beyond(run_folder, -1);
  if (!incomplete.empty()) {
    fail(ExitCode::checkpoint,
         "{} has no {}: if it is still being copied, wait until the copy is complete, then --resume; otherwise move it away",
         incomplete.front().folder.string(), kManifestFile);
  }
  for (const StoredCheckpoint& checkpoint : list_checkpoints(run_folder)) {
    if (const auto stranger = stranger_in(checkpoint.folder)) {
      fail(ExitCode::usage, "{} was not written by Cohort, so {} is not deleted: move it away first, or choose another folder",
           stranger->string(), checkpoint.folder.string());
    }
  }
}

void remove_checkpoints(const fs::path& run_folder) {
  require_removable_checkpoints(run_folder);
  tidy_checkpoints(run_folder);
  for (const StoredCheckpoint& checkpoint : list_checkpoints(run_folder)) remove_checkpoint(run_folder, checkpoint);
}

}  // namespace cohort
