#include "rundir/run_lock.hpp"

#include <chrono>

#include "base/error.hpp"
#include "base/file.hpp"
#include "comm/consensus.hpp"
#include "rundir/run_directory.hpp"

namespace cohort {

namespace fs = std::filesystem;

RunLock::RunLock(Communicator& world, fs::path run_folder, const LauncherFacts& launcher, LockOptions options)
    : folder_(std::move(run_folder)), options_(std::move(options)) {
  fail_together(world, "taking the run folder", [&] {
    if (world.rank() != 0) return;
    made_folder_ = !fs::exists(folder_);
    make_folders(folder_);
    const JobStart job{launcher.job_id, launcher.restart_count, launcher.cluster};
    file_ = std::make_unique<LockFile>(folder_ / "lock", job, options_);
  });
  if (!file_) return;
  if (!file_->dead_owner().empty()) options_.say("taken over from a dead job: " + file_->dead_owner());
  heart_ = std::thread([this] { keep_alive(); });
}

RunLock::~RunLock() {
  if (!file_) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_all();
  heart_.join();
  file_.reset();
  std::error_code not_empty;
  if (!made_folder_) return;
  unmark_if_unused(folder_);
  fs::remove(folder_, not_empty);
}

void RunLock::keep_alive() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, std::chrono::duration<double>(options_.heartbeat), [this] { return ends_; })) {
    if (!file_->touch()) lost_ = true;
  }
}

void RunLock::fail_lost() const {
  throw SharedError(
      ExitCode::launch,
      fmt::format(
          "{} no longer belongs to this job: its lock was removed, or taken over by another job after a minute without a "
          "heartbeat; this job ends without saving, since the other one writes there now (a save in progress may still complete)",
          folder_.string()));
}

}  // namespace cohort
