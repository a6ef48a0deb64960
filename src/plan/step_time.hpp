// How long a step takes in a layout, on a machine that a profile describes: the step that is counted (train/counted_step.hpp),
// played (replay.hpp), and in a pipeline the times of its passes in the schedule, simulated (parallel/pipeline/timeline.hpp).
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "plan/replay.hpp"
#include "train/counted_step.hpp"

namespace cohort {

struct StepTime {
  double seconds = 0.0;
  StepSplit split;             // of the rank that has most to do; sums to `seconds`
  double communication = 0.0;  // of its collectives, hidden or not
  double host_copies = 0.0;    // of its copies from and to the host, hidden or not
  double bubble() const { return seconds > 0.0 ? split.bubble / seconds : 0.0; }
};

/// Throws Error(config) for what is not timed: offloaded optimizers, and a precision or copies to the host that the profile has
/// no measurements of.
void check_can_be_timed(const RunConfig& config, const MachineProfile& profile);

/// `stages` are count_stages(config). `ranks_per_node`: ranks fill node after node. Not timed: what reads samples, validation and
/// saving. Throws as check_can_be_timed().
StepTime predict_step_time(const RunConfig& config, const std::vector<CountedStep>& stages, const MachineProfile& profile,
                           int ranks_per_node);

}  // namespace cohort
