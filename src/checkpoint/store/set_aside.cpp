#include "checkpoint/store/set_aside.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/store/folders.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Steps beyond `step` under their own names, by rising step.
std::vector<StoredCheckpoint> steps_beyond(const fs::path& run_folder, Count step) {
  const fs::path folder = checkpoints_folder(run_folder);
  std::vector<StoredCheckpoint> found;
  for (const std::string& name : names_in(folder)) {
    const auto known = step_of_name(name);
    if (known && *known > step) found.push_back({*known, folder / name});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

}  // namespace

fs::path set_aside_folder(const fs::path& run_folder) { return checkpoints_folder(run_folder) / kSetAside; }

fs::path free_place_aside(const fs::path& run_folder, const std::string& name) {
  const fs::path place = set_aside_folder(run_folder);
  make_folders(place);
  fs::path free = place / name;
  std::error_code error;
  for (int number = 2; fs::exists(fs::symlink_status(free, error)); ++number) free = place / fmt::format("{}.{}", name, number);
  return free;
}

fs::path set_aside(const fs::path& run_folder, const fs::path& folder, Count step) {
  fs::path free = free_place_aside(run_folder, step_name(step));
  rename_folder(folder, free);
  return free;
}

std::vector<fs::path> set_aside_beyond(const fs::path& run_folder, Count step) {
  tidy_checkpoints(run_folder);  // what stands aside under another name and counts gets its own back
  std::vector<StoredCheckpoint> found = steps_beyond(run_folder, step);
  std::reverse(found.begin(), found.end());
  std::vector<fs::path> places;
  for (const StoredCheckpoint& checkpoint : found) places.push_back(set_aside(run_folder, checkpoint.folder, checkpoint.step));
  return places;
}

std::vector<StoredCheckpoint> incomplete_beyond(const fs::path& run_folder, Count step) {
  std::vector<StoredCheckpoint> found = steps_beyond(run_folder, step);
  const fs::path folder = checkpoints_folder(run_folder);
  std::erase_if(found, [&](const StoredCheckpoint& checkpoint) {
    return is_complete(checkpoint.folder) || is_complete(folder / replaced_name(checkpoint.step));
  });
  return found;
}

}  // namespace cohort
