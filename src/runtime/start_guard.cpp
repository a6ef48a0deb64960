#include "runtime/start_guard.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "runtime/failure_exit.hpp"
#include "watch/monitor.hpp"
#include "watch/process_state.hpp"

namespace cohort {
namespace {

constexpr const char* kTimeoutVariable = "COHORT_WATCH_TIMEOUT";

// What is the same for all processes of a job and no others.
std::string job_of(const Environment& environment) {
  for (const char* name : {"PMIX_NAMESPACE", "PMI_JOBID"}) {
    if (const auto found = environment.find(name); found != environment.end()) return found->second;
  }
  return "";
}

[[noreturn]] void give_up(double seconds, const LauncherFacts& self) {
  const std::map<int, LocalRank> ranks = local_ranks();
  // One speaks for the ranks of its host.
  int speaker = -1;
  for (const auto& [rank, local] : ranks) {
    if (speaker < 0 && !local.state.starts_with("stopped") && local.state != "dead") speaker = rank;
  }
  if (speaker < 0 || speaker == self.rank.value_or(speaker)) {
    const std::string missing = who_is_missing(ranks, self);
    print_error_line(fmt::format(
        "the ranks did not find each other within {:g} s: {}. A slower start needs {}=SECONDS (0: wait forever)", seconds,
        missing.empty() ? "all on this host are running, so one on another host is stopped or was not started, or hosts cannot "
                          "reach each other"
                        : missing,
        kTimeoutVariable));
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  _exit(static_cast<int>(ExitCode::lost));
}

}  // namespace

double watch_timeout(const Environment& environment) {
  const auto found = environment.find(kTimeoutVariable);
  if (found == environment.end() || found->second.empty()) return Monitor::kDefaultSeconds;
  char* end = nullptr;
  const double seconds = std::strtod(found->second.c_str(), &end);
  if (*end != '\0' || !(seconds >= 0.0) || seconds > 1e6) {
    fail(ExitCode::launch, "{}='{}': must be a number of seconds, 0 to 1000000 (0: never end a job that hangs)", kTimeoutVariable,
         found->second);
  }
  return seconds;
}

StartGuard::StartGuard(double timeout, const LauncherFacts& self) {
  if (timeout <= 0.0 || self.size.value_or(1) == 1) return;
  const double seconds = 0.75 * timeout;
  thread_ = std::thread([this, seconds, self] {
    std::unique_lock lock(mutex_);
    if (!condition_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return disarmed_; })) give_up(seconds, self);
  });
}

void StartGuard::disarm() {
  {
    const std::lock_guard lock(mutex_);
    disarmed_ = true;
  }
  condition_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::map<int, LocalRank> local_ranks() {
  std::map<int, LocalRank> ranks;
  const std::string job = job_of(current_environment());
  if (job.empty()) return ranks;
  for (const std::int64_t process : visible_processes()) {
    const Environment environment = environment_of(process);  // empty for those of other users
    if (job_of(environment) != job) continue;
    try {
      const LauncherFacts facts = read_launcher_facts(environment);
      // A rank's own children have its environment, and come later.
      if (facts.rank && !ranks.contains(*facts.rank)) ranks[*facts.rank] = {process, process_state(process)};
    } catch (const Error&) {  // no rank of ours
    }
  }
  return ranks;
}

std::string who_is_missing(const std::map<int, LocalRank>& ranks, const LauncherFacts& self) {
  std::vector<std::string> found;
  for (const auto& [rank, local] : ranks) {
    if (local.state.starts_with("stopped") || local.state == "dead")
      found.push_back(fmt::format("rank {} (process {}) is {}", rank, local.process, local.state));
  }
  const int expected = self.local_size.value_or(static_cast<int>(ranks.size()));
  if (static_cast<int>(ranks.size()) < expected)
    found.push_back(fmt::format("{} of {} on this host ended or never started", expected - static_cast<int>(ranks.size()),
                                counted(expected, "rank")));
  return join(found, "; ");
}

}  // namespace cohort
