// Watches over the start of a job, before there is a monitor: MPI_Init waits for all ranks, and forever if one of them is
// stopped, or was never started.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/launcher.hpp"

namespace cohort {

/// The timeout of the watch until a run file sets another: COHORT_WATCH_TIMEOUT seconds, else Monitor::kDefaultSeconds. Throws
/// Error(launch) if the variable is not a number of at least 0.
double watch_timeout(const Environment& environment);

class StartGuard {
 public:
  /// Unless disarm() is called within three quarters of `timeout` seconds (0: never), ends this process with ExitCode::lost; the
  /// first of the ranks of this host that still run says which of them do not.
  StartGuard(double timeout, const LauncherFacts& self);
  ~StartGuard() { disarm(); }
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

  void disarm();

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool disarmed_ = false;
  std::thread thread_;
};

/// A rank of this job on this host.
struct LocalRank {
  std::int64_t process = 0;
  std::string state;  // as of process_state()
};
/// By rank, found among all processes of this user by what the launcher put into their environments.
std::map<int, LocalRank> local_ranks();

/// What keeps a start: "rank 2 (process 123) is stopped by a signal", "rank 3 is not there"; "" if all ranks of this host run.
std::string who_is_missing(const std::map<int, LocalRank>& ranks, const LauncherFacts& self);

}  // namespace cohort
