// The lock of a run folder: RUN/lock says which job trains there, so that a second one that is started by mistake is refused
// instead of writing between the lines of the first. What makes a lock, and when its owner counts as dead: rundir/lock_file.hpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/communicator.hpp"
#include "rundir/lock_file.hpp"
#include "runtime/launcher.hpp"

namespace cohort {

class RunLock {
 public:
  /// Takes the lock on rank 0, making the run folder if there is none, and touches it from then on from a thread of its own, so
  /// that a long step does not look like death. To be called before anything in the folder is read. Says what there is to say,
  /// with `options.say`, on rank 0. Throws a SharedError with the codes of LockFile. // Collective over: world
  RunLock(Communicator& world, std::filesystem::path run_folder, const LauncherFacts& launcher, LockOptions options);
  /// Gives it back, and removes the folder if this made it and nothing came into it.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Whether the lock is another job's now: this process, or the file system, hung for more than a minute. Rank 0 alone
  /// knows, as late as a heartbeat (LockOptions); costs nothing. Let ranks agree, then all call fail_lost().
  bool is_lost() const { return lost_; }
  /// Throws SharedError(launch) that says so.
  [[noreturn]] void fail_lost() const;

 private:
  void keep_alive();

  std::filesystem::path folder_;
  LockOptions options_;
  bool made_folder_ = false;
  std::unique_ptr<LockFile> file_;  // rank 0
  std::atomic<bool> lost_{false};
  bool ends_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  std::thread heart_;  // rank 0
};

}  // namespace cohort
