#include "checkpoint/store.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/lacking.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/retention.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

bool is_complete(const fs::path& checkpoint) {
  std::error_code error;
  return fs::is_regular_file(checkpoint / kManifestFile, error);
}

/// Names in the checkpoints folder; empty if there is none.
std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return names;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) names.push_back(entry->path().filename().string());
  if (error) fail(ExitCode::io, "{}: cannot be listed: {}", folder.string(), error.message());
  return names;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(ExitCode::io, "cannot rename {} to {}: {}", from.string(), to.string(), error.message());
}

// The manifest goes first: whenever a kill or a failure ends it, what is left does not count. Then the index: who opens it later
// (h5py in this folder) fails, instead of reading holes where rank files are gone. What cannot be removed now (NFS keeps files
// that somebody reads) is tried again by the next save.
void remove_folder(const fs::path& folder) {
  const FlightRecorder::LongCall removing("removing a checkpoint");
  std::error_code ignored;
  fs::remove(folder / kManifestFile, ignored);
  fs::remove(folder / kModelFile, ignored);
  fs::remove_all(folder, ignored);
}

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

}  // namespace

std::vector<StoredCheckpoint> list_checkpoints(const fs::path& run_folder) {
  const fs::path folder = checkpoints_folder(run_folder);
  std::vector<StoredCheckpoint> found;
  for (const std::string& name : entries(folder)) {
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

fs::path resolve_checkpoint(const fs::path& path) {
  if (is_complete(path)) return path;
  if (const auto latest = find_latest(path)) return *latest;
  // Not a run; perhaps a step that a run does not have: RUN/checkpoints/step_N.
  const fs::path run_folder = fs::absolute(path).lexically_normal().parent_path().parent_path();
  const std::vector<StoredCheckpoint> others = list_checkpoints(run_folder);
  std::error_code error;
  std::string state = "there is no such folder";
  if (fs::is_directory(path, error)) {
    state = "there is no complete checkpoint in it" + lacking_sources_text(path);
  } else if (fs::exists(path, error)) {
    state = "this is a file" + lacking_sources_text(path.parent_path());
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
  std::error_code error;
  const bool replaces = fs::exists(final_folder, error);
  // A folder cannot be renamed over one that is not empty. The former one steps aside under a name that still counts.
  if (replaces) rename_folder(final_folder, replaced);
  commit_file(temporary, final_folder);
  if (replaces) remove_folder(replaced);
}

void tidy_checkpoints(const fs::path& run_folder, std::optional<Count> only_step) {
  const fs::path folder = checkpoints_folder(run_folder);
  const auto is_meant = [&](std::optional<Count> step) { return step && (!only_step || step == only_step); };
  for (const std::string& name : entries(folder)) {
    if (is_meant(step_of_temporary(name))) remove_folder(folder / name);
    if (const auto step = step_of_replaced(name); is_meant(step)) {
      const fs::path final_folder = folder / step_name(*step);
      if (is_complete(folder / name) && !is_complete(final_folder)) {
        remove_folder(final_folder);  // what stands there is not a checkpoint
        rename_folder(folder / name, final_folder);
      } else {
        remove_folder(folder / name);
      }
    }
  }
}

void remove_checkpoint(const fs::path& run_folder, const StoredCheckpoint& checkpoint) {
  // Half a checkpoint with a manifest must never be seen: it first loses its name.
  const fs::path doomed = checkpoints_folder(run_folder) / temporary_name(checkpoint.step);
  rename_folder(checkpoint.folder, doomed);
  remove_folder(doomed);
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
  const std::vector<RetentionVerdict> verdicts = judge(candidates, retention);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!verdicts[i].stays) remove_checkpoint(run_folder, found[i]);
  }
}

void remove_checkpoints(const fs::path& run_folder) {
  const fs::path folder = checkpoints_folder(run_folder);
  for (const std::string& name : entries(folder)) {
    if (step_of_name(name) || step_of_replaced(name)) remove_folder(folder / name);
  }
  fs::remove_all(folder);
}

}  // namespace cohort
