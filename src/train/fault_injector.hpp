// Faults that were asked for ([fault], --fault), made real on the rank that they are for: so that people can see what a job does
// when a rank dies, hangs, or loses its disk, before a cluster shows them. The rank does what a broken one does, no more: nothing
// here tells the other ranks, so that what they learn they learn as they would otherwise.
//
// A fault comes when its step begins, or the first time in its step that its phase does (an observer of StepTimers, which every
// strategy runs). Step 5 is the fifth optimizer step: four are done. A run without faults pays nothing: there is no observer.
//
// "once": before it acts, the rank leaves RUN/faults/KIND.rankR.stepS.PHASE; while that file is there the fault does not come
// again, so a chain of jobs with one run file gets past it. --overwrite deletes these files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"
#include "observe/log.hpp"
#include "observe/timers.hpp"

namespace cohort {

class FaultInjector {
 public:
  /// Keeps those of `faults` that are for this rank and have not happened yet. `lose_device` is what the kind `device` does. Logs
  /// to `log`, which outlives this.
  FaultInjector(const std::vector<FaultSection>& faults, int rank, std::filesystem::path run_folder, RankLog& log,
                std::function<void()> lose_device);

  /// Whether this rank has nothing to do: then the calls below need not be made.
  bool empty() const { return pending_.empty(); }
  /// Step `step`, 1 the first, begins. May not return.
  void begin_step(Count step);
  /// A phase of that step begins. May not return.
  void enter(Phase phase);
  /// The checkpoint after that step is about to be saved. May not return.
  void begin_save();
  /// Whether what this rank computes in that step is to become NaN.
  bool poisons() const { return poisons_; }

 private:
  struct Pending {
    FaultSection fault;
    Count acted_in = 0;  // the last step in which it did
  };

  void act_on(std::string_view phase);
  void act(Pending& pending);
  std::vector<Pending> pending_;
  std::filesystem::path run_folder_;
  RankLog& log_;
  std::function<void()> lose_device_;
  Count step_ = 0;
  bool poisons_ = false;
};

}  // namespace cohort
