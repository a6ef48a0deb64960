#include "checkpoint/inspect/inventory.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/folders.hpp"
#include "checkpoint/store/missing_files.hpp"
#include "checkpoint/store/set_aside.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

Bytes bytes_in(const fs::path& folder) {
  Bytes sum = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unreadable;  // or gone: a save in progress renames its files
    const auto bytes = entry->file_size(unreadable);
    if (!unreadable) sum += static_cast<Bytes>(bytes);
  }
  return sum;
}

void read_facts(CheckpointEntry& entry) {
  try {
    const Manifest known = read_manifest(entry.folder);
    if (const std::vector<std::string> missing = missing_files(entry.folder, known); !missing.empty()) {
      fail(ExitCode::checkpoint, "{}", missing_files_text(missing, known));
    }
    const CheckpointReader reader(entry.folder);
    const Manifest& manifest = reader.manifest();
    entry.form = manifest.form;
    entry.parameters = manifest.parameters();
    entry.has_optimizer = std::any_of(manifest.tensors().begin(), manifest.tensors().end(), [](const ManifestTensor& tensor) {
      return !tensor.name.starts_with(kModelGroup) && !tensor.name.starts_with(kMasterGroup);
    });
    entry.state = reader.state();
    entry.state.tokenizer.clear();
  } catch (const Error& error) {
    entry.kind = EntryKind::damaged;
    entry.reason = error.what();
  }
}

// A former checkpoint counts as long as the new one is not complete.
void judge_by_name(CheckpointEntry& entry) {
  const std::string name = entry.folder.filename().string();
  if (const auto step = step_of_temporary(name)) {
    entry.step = *step;
    entry.kind = EntryKind::leftover;
    entry.reason = "a save in progress, or left by a killed one; the next save removes it";
  } else if (const auto replaced = step_of_replaced(name)) {
    entry.step = *replaced;
    if (is_complete(entry.folder) && !is_complete(entry.folder.parent_path() / step_name(*replaced))) return;
    entry.kind = EntryKind::leftover;
    entry.reason = "replaced by a newer checkpoint of this step; the next save removes it";
  } else if (const auto complete = step_of_name(name)) {
    entry.step = *complete;
    if (is_complete(entry.folder)) return;
    entry.kind = EntryKind::incomplete;
    entry.reason = "no manifest.json: not a complete checkpoint; ignored" + missing_sources_text(entry.folder);
  } else {
    entry.kind = EntryKind::stranger;
    entry.reason = "not a name that Cohort uses; ignored";
  }
}

}  // namespace

std::string_view name_of(EntryKind kind) {
  switch (kind) {
    case EntryKind::complete:
      return "complete";
    case EntryKind::damaged:
      return "damaged";
    case EntryKind::incomplete:
      return "incomplete";
    case EntryKind::leftover:
      return "leftover";
    case EntryKind::set_aside:
      return "set aside";
    case EntryKind::stranger:
      return "stranger";
  }
  return "";
}

std::vector<CheckpointEntry> inventory_of(const fs::path& run_folder) {
  std::vector<CheckpointEntry> entries;
  const fs::path folder = checkpoints_folder(run_folder);
  std::error_code error;
  for (fs::directory_iterator item(folder, error); !error && item != fs::directory_iterator(); item.increment(error)) {
    if (item->path().filename() == kSetAside) continue;
    CheckpointEntry entry;
    entry.folder = item->path();
    judge_by_name(entry);
    entry.bytes = bytes_in(entry.folder);
    if (entry.kind == EntryKind::complete) read_facts(entry);
    entries.push_back(std::move(entry));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail(ExitCode::io, "{}: cannot be listed: {}", folder.string(), error.message());
  }
  for (const std::string& name : names_in(set_aside_folder(run_folder))) {
    CheckpointEntry entry;
    entry.folder = set_aside_folder(run_folder) / name;
    entry.kind = EntryKind::set_aside;
    entry.step = step_of_name(name.substr(0, name.find('.'))).value_or(-1);
    entry.reason = "never resumed from automatically; delete it if you do not need it";
    entry.bytes = bytes_in(entry.folder);
    entries.push_back(std::move(entry));
  }
  const auto key = [](const CheckpointEntry& entry) { return std::pair(entry.step, entry.folder.filename().string()); };
  std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return entries;
}

std::vector<fs::path> find_runs(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code error;
  if (fs::is_directory(checkpoints_folder(folder), error)) runs.push_back(folder);
  fs::recursive_directory_iterator item(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    std::error_code unreadable;
    if (item->is_symlink(unreadable) || !item->is_directory(unreadable)) continue;
    if (item->path().filename() == checkpoints_folder("")) {
      item.disable_recursion_pending();  // thousands of files may lie there, and no runs
    } else if (fs::is_directory(checkpoints_folder(item->path()), unreadable)) {
      runs.push_back(item->path());
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

}  // namespace cohort
