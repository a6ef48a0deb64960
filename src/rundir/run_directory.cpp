#include "rundir/run_directory.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/store/folders.hpp"
#include "checkpoint/store/set_aside.hpp"
#include "comm/consensus.hpp"
#include "config/describe.hpp"
#include "rundir/fault_marks.hpp"
#include "rundir/trace_files.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMark = "cohort-run";
constexpr const char* kMarkText =
    "This is a run folder of Cohort, which replaces and removes its own files here: run.toml, metrics.jsonl,\n"
    "ranks.jsonl, layers.jsonl, samples.jsonl, tensorboard/events.*.cohort, trace.json, trace_N.json, logs/rank_N/,\n"
    "flight/, faults/, checkpoints/step_N/.\n";
constexpr const char* kOtherFolder = "choose another folder with --set run.directory=FOLDER";

bool stands_at(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

std::string first_line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Earlier versions left no mark: a resolved run file and the log of rank 0 are proof enough.
bool is_run_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder / kMark, error)) return true;
  return first_line_of(folder / "run.toml").starts_with("[run]  # ") &&
         fs::is_regular_file(folder / "logs/rank_0/train.log", error);
}

// RUN/checkpoints as `cohort ckpt import` and the like make it, or as it is copied from elsewhere: checkpoints and nothing else.
bool holds_checkpoints_alone(const fs::path& folder) {
  const std::vector<std::string> names = names_in(checkpoints_folder(folder));
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const bool of_checkpoint = step_of_name(name) || step_of_replaced(name) || step_of_temporary(name);
    return name == kSetAside || (of_checkpoint && !stranger_in(checkpoints_folder(folder) / name));
  });
}

bool holds_nothing(const fs::path& path) {
  std::error_code error;
  const bool has_content = fs::is_directory(path, error) || fs::is_regular_file(path, error);
  return has_content && fs::is_empty(path, error);
}

// A folder that was given by mistake has things of these names that are somebody's.
void require_run_or_room(const fs::path& folder) {
  if (is_run_folder(folder)) return;
  for (const char* name : {"checkpoints", "logs", "metrics.jsonl", "ranks.jsonl", "layers.jsonl", "samples.jsonl", "tensorboard",
                           "trace.json", "run.toml", "flight", "faults", "save", kMark}) {
    const fs::path path = folder / name;
    if (!stands_at(path) || holds_nothing(path)) continue;
    if (path == checkpoints_folder(folder) && holds_checkpoints_alone(folder)) continue;
    fail(ExitCode::usage,
         "{} already exists, but {} is not marked as a run folder (it has no file {}); {}, or move it away; if it is part of a "
         "run, mark the folder with: touch {}",
         path.string(), folder.string(), kMark, kOtherFolder, (folder / kMark).string());
  }
}

// Of a folder that a run, or a person, made: a link stays, and so does one that still holds something.
void remove_if_empty(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_symlink(folder, error)) fs::remove(folder, error);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return;
  fs::remove(path, error);
  if (error) fail(ExitCode::io, "cannot remove {}: {}", path.string(), error.message());
}

bool is_rank_folder(std::string_view name) {
  return name.starts_with("rank_") && name.size() > 5 && name.find_first_not_of("0123456789", 5) == std::string_view::npos;
}

// What a run writes, name by name, and no more.
void delete_run(const fs::path& folder) {
  remove_checkpoints(folder);
  for (const std::string& name : names_in(folder / "logs")) {
    if (!is_rank_folder(name)) continue;
    for (const char* log : {"train.log", "nccl.log"}) remove_file(folder / "logs" / name / log);
    remove_if_empty(folder / "logs" / name);
  }
  for (const std::string& name : names_in(folder / "tensorboard")) {
    if (name.starts_with("events.out.tfevents.") && name.ends_with(".cohort")) remove_file(folder / "tensorboard" / name);
  }
  remove_if_empty(folder / "tensorboard");
  for (const char* name : {"metrics.jsonl", "ranks.jsonl", "layers.jsonl", "samples.jsonl", "run.toml"})
    remove_file(folder / name);
  for (const std::string& name : names_in(folder)) {
    const bool unfinished = name.ends_with(".tmp");  // of a run that was killed while it wrote
    if (is_trace_file(unfinished ? fs::path(name).stem().string() : name)) remove_file(folder / name);
  }
}

void forget_faults(const fs::path& folder) {
  for (const std::string& name : names_in(folder / "faults")) {
    if (is_mark_of_fault(name)) remove_file(folder / "faults" / name);
  }
  remove_if_empty(folder / "faults");
}

std::string steps_of(const std::vector<StoredCheckpoint>& checkpoints) {
  std::vector<std::string> steps;
  for (const StoredCheckpoint& checkpoint : checkpoints) steps.push_back(std::to_string(checkpoint.step));
  return steps.empty() ? "none" : join(steps);
}

std::optional<Count> number_in(const std::string& text) {
  Count number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The checkpoint that --resume-from names: one of this run; or, for a run that has none yet, of another.
fs::path named_checkpoint(const fs::path& folder, const std::string& from, const std::vector<StoredCheckpoint>& found) {
  if (const auto step = number_in(from)) {
    for (const StoredCheckpoint& checkpoint : found) {
      if (checkpoint.step == *step) return checkpoint.folder;
    }
    fail(ExitCode::checkpoint, "--resume-from {}: {} has no complete checkpoint of that step; it has these: {}", from,
         folder.string(), steps_of(found));
  }
  fs::path named = resolve_checkpoint(from);
  std::error_code error;
  for (const StoredCheckpoint& checkpoint : found) {
    if (fs::equivalent(checkpoint.folder, named, error)) return checkpoint.folder;
  }
  if (found.empty()) return named;
  fail(ExitCode::usage, "--resume-from {}: not a checkpoint of {}, which has its own (steps {}): name one of these, or {}", from,
       folder.string(), steps_of(found), kOtherFolder);
}

// Whoever resumes from the newest checkpoint that is complete may want a later one that is on its way.
void require_no_later_on_its_way(const fs::path& folder, Count newest) {
  const std::vector<StoredCheckpoint> incomplete = incomplete_beyond(folder, newest);
  if (incomplete.empty()) return;
  fail(ExitCode::checkpoint,
       "{} has no {}: if it is still being copied, wait until the copy is complete; otherwise resume without it by --resume-from "
       "{} (it is then set aside), or automatically with --set checkpoint.fallback=previous",
       incomplete.back().folder.string(), kManifestFile, newest);
}

std::vector<fs::path> checkpoints_to_go_on_from(const fs::path& folder, ExistingRun existing, const ResumeOptions& options) {
  const std::vector<StoredCheckpoint> found = list_checkpoints(folder);
  switch (existing) {
    case ExistingRun::resume_from:
      return {named_checkpoint(folder, options.from, found)};
    case ExistingRun::overwrite:
      return {};
    case ExistingRun::refuse:
      if (found.empty()) return {};
      fail(ExitCode::usage,
           "{} already holds a run with checkpoints: continue it with --resume, start over with --overwrite, or choose another "
           "folder with --set run.name=NAME",
           folder.string());
    case ExistingRun::resume:
      if (!found.empty()) break;
      require_removable_checkpoints(folder);
      fail(ExitCode::checkpoint,
           "--resume: no complete checkpoint in {}; omit --resume to start, or check run.name and run.directory",
           checkpoints_folder(folder).string());
    case ExistingRun::resume_if_any:
      if (found.empty()) return {};
      break;
  }
  if (!options.falls_back) {
    require_no_later_on_its_way(folder, found.back().step);
    return {found.back().folder};
  }
  std::vector<fs::path> all;
  for (auto checkpoint = found.rbegin(); checkpoint != found.rend(); ++checkpoint) all.push_back(checkpoint->folder);
  return all;
}

std::vector<fs::path> prepare(const fs::path& folder, ExistingRun existing, const ResumeOptions& options) {
  try {
    require_run_or_room(folder);
    std::vector<fs::path> checkpoints = checkpoints_to_go_on_from(folder, existing, options);
    const bool goes_on_here = !checkpoints.empty() && !list_checkpoints(folder).empty();
    if (!goes_on_here) require_removable_checkpoints(folder);
    make_folders(folder);
    write_file_atomically(folder / kMark, kMarkText);
    if (!goes_on_here) delete_run(folder);
    // A run that broke before its first checkpoint starts over, but has been broken: else it would never get past that.
    if (existing == ExistingRun::overwrite) forget_faults(folder);
    return checkpoints;
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::io, "run folder {}: {}", folder.string(), error.what());
  }
}

}  // namespace

std::vector<fs::path> prepare_run_directory(Communicator& world, const fs::path& folder, ExistingRun existing,
                                            const ResumeOptions& options) {
  std::string text;  // a path and a zero for each checkpoint
  fail_together(world, "preparing the run folder", [&] {
    if (world.rank() != 0) return;
    for (const fs::path& checkpoint : prepare(folder, existing, options)) text += checkpoint.string() + '\0';
  });
  text = broadcast_text(world, text, 0);
  std::vector<fs::path> checkpoints;
  for (std::size_t begin = 0; begin < text.size(); begin += checkpoints.back().string().size() + 1) {
    checkpoints.emplace_back(text.c_str() + begin);
  }
  return checkpoints;
}

void unmark_if_unused(const fs::path& folder) {
  std::error_code error;
  const auto entry = fs::directory_iterator(folder, error);
  if (error || entry == fs::directory_iterator() || entry->path().filename() != kMark) return;
  if (std::next(entry) == fs::directory_iterator()) fs::remove(folder / kMark, error);
}

void write_resolved_run_file(const RunConfig& config) {
  write_file_atomically(fs::path(config.run.directory) / "run.toml", to_toml(config));
}

}  // namespace cohort
