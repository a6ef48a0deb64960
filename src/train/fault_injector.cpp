#include "train/fault_injector.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/file.hpp"
#include "config/fault.hpp"
#include "rundir/fault_marks.hpp"

namespace cohort {
namespace {

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// From now on a write to any file fails with EFBIG, as on a full disk with ENOSPC: logs, checkpoints, and stdout or stderr if
// they are files (to a launcher they are pipes, which have no size).
void lose_disk() {
  signal(SIGXFSZ, SIG_IGN);  // without this the process would be killed
  struct rlimit limit {};
  COHORT_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0, "cannot read the limit of file sizes: {}", std::strerror(errno));
  limit.rlim_cur = 0;
  COHORT_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "cannot limit file sizes: {}", std::strerror(errno));
}

}  // namespace

FaultInjector::FaultInjector(const std::vector<FaultSection>& faults, int rank, std::filesystem::path run_folder, RankLog& log,
                             std::function<void()> lose_device)
    : run_folder_(std::move(run_folder)), log_(log), lose_device_(std::move(lose_device)) {
  for (const FaultSection& fault : faults) {
    if (fault.rank != rank) continue;
    if (has_been(fault, run_folder_)) continue;
    log_.info("fault: {}", describe_fault(fault));
    pending_.push_back({fault});
  }
}

void FaultInjector::begin_step(Count step) {
  step_ = step;
  poisons_ = false;
  act_on("start");
}

void FaultInjector::enter(Phase phase) { act_on(name_of(phase)); }

void FaultInjector::begin_save() { act_on("save"); }

void FaultInjector::act_on(std::string_view phase) {
  for (Pending& pending : pending_) {
    const FaultSection& fault = pending.fault;
    const bool due = fault.kind == "slow" ? step_ >= fault.step : step_ == fault.step;
    if (!due || phase != fault.phase || pending.acted_in == step_) continue;
    act(pending);
  }
}

void FaultInjector::act(Pending& pending) {
  const FaultSection& fault = pending.fault;
  const bool first = pending.acted_in == 0;
  pending.acted_in = step_;  // before it acts: what it does may enter a phase
  if (first) {
    log_.warning("fault: now, at step {}: {}", step_, describe_fault(fault));
    make_folders(run_folder_ / "faults");
    write_file_atomically(mark_of_fault(fault, run_folder_), describe_fault(fault) + "\n");
  }
  const std::string& kind = fault.kind;
  if (kind == "exit") std::_Exit(static_cast<int>(fault.code));
  if (kind == "abort") std::abort();
  if (kind == "kill") std::raise(SIGKILL);
  if (kind == "stop") std::raise(SIGSTOP);
  if (kind == "segv") std::raise(SIGSEGV);
  if (kind == "throw") fail(ExitCode::internal, "the error that fault.kind = \"throw\" asks for");
  if (kind == "hang") hang();
  if (kind == "slow") std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
  if (kind == "nan") poisons_ = true;
  if (kind == "disk") lose_disk();
  if (kind == "device") lose_device_();
}

}  // namespace cohort
