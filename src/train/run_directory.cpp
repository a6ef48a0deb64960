#include "train/run_directory.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/collective.hpp"
#include "checkpoint/store.hpp"
#include "comm/agreement.hpp"
#include "config/describe.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

// Only what a run writes: a folder given by mistake keeps everything else.
void delete_run(const fs::path& folder) {
  remove_checkpoints(folder);
  for (const char* name : {"logs", "metrics.jsonl", "run.toml"}) fs::remove_all(folder / name);
}

void prepare(const fs::path& folder, bool has_checkpoint, ExistingRun existing) {
  try {
    if (has_checkpoint && existing == ExistingRun::refuse) {
      fail(ExitCode::usage,
           "{} already holds a run with checkpoints: go on with --resume, start over with --overwrite, or choose another "
           "folder with --set run.name=NAME",
           folder.string());
    }
    if (!has_checkpoint && existing == ExistingRun::resume) {
      fail(ExitCode::checkpoint,
           "--resume: there is no complete checkpoint in {}; leave out --resume to start, or check run.name and run.directory",
           (folder / "checkpoints").string());
    }
    const bool goes_on = has_checkpoint && (existing == ExistingRun::resume || existing == ExistingRun::resume_if_any);
    if (!goes_on) delete_run(folder);
    // A run that broke before its first checkpoint starts over, but has been broken: else it would never get past that.
    if (existing == ExistingRun::overwrite) fs::remove_all(folder / "faults");
    fs::create_directories(folder);
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::io, "run folder {}: {}", folder.string(), error.code().message());
  }
}

}  // namespace

std::optional<fs::path> prepare_run_directory(Communicator& world, const fs::path& folder, ExistingRun existing) {
  std::optional<fs::path> latest = find_latest_collectively(world, folder);
  agree(world, "preparing the run folder", [&] {
    if (world.rank() == 0) prepare(folder, latest.has_value(), existing);
  });
  if (existing == ExistingRun::overwrite) latest.reset();
  return latest;
}

void write_resolved_run_file(const RunConfig& config) {
  write_file_atomically(fs::path(config.run.directory) / "run.toml", to_toml(config));
}

}  // namespace cohort
