#include "checkpoint/store/folders.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

bool is_name_of_checkpoint_file(std::string_view name) {
  if (name.ends_with(".tmp")) name.remove_suffix(4);
  if (name == kManifestFile || name == kModelFile) return true;
  if (!name.starts_with("rank_") || !name.ends_with(".h5")) return false;
  const std::string_view digits = name.substr(5, name.size() - 8);
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_own(const fs::path& file) {
  std::error_code error;
  return is_name_of_checkpoint_file(file.filename().string()) && fs::is_regular_file(fs::symlink_status(file, error));
}

// What an NFS client calls a removed file that is still open; gone when it is closed.
bool is_removed_already(std::string_view name) { return name.starts_with(".nfs"); }

}  // namespace

bool is_complete(const fs::path& checkpoint) {
  std::error_code error;
  return fs::is_regular_file(checkpoint / kManifestFile, error);
}

std::vector<std::string> names_in(const fs::path& folder) {
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

std::optional<fs::path> stranger_in(const fs::path& checkpoint) {
  std::error_code error;
  if (fs::is_symlink(checkpoint, error)) return checkpoint;
  std::vector<std::string> names = names_in(checkpoint);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!is_own(checkpoint / name) && !is_removed_already(name)) return checkpoint / name;
  }
  return std::nullopt;
}

void remove_own_files(const fs::path& checkpoint) {
  const FlightRecorder::LongCall removing("removing a checkpoint");
  std::error_code ignored;
  if (fs::is_symlink(checkpoint, ignored)) return;
  fs::remove(checkpoint / kManifestFile, ignored);
  fs::remove(checkpoint / kModelFile, ignored);
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(checkpoint, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_own(entry->path())) files.push_back(entry->path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
  fs::remove(checkpoint, ignored);  // fails, as it should, if something is left
}

void remove_unfinished_save(const fs::path& temporary) {
  const FlightRecorder::LongCall removing("removing an unfinished save");
  std::error_code ignored;
  if (fs::is_symlink(temporary, ignored)) return;
  fs::remove(temporary / kManifestFile, ignored);
  fs::remove_all(temporary, ignored);
}

}  // namespace cohort
