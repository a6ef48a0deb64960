// A tape (base/work_tape.hpp) played on a machine that a profile describes: how long the step takes on one rank, and what it
// spends its time on.
//
// A rank computes one op after the other. Its collectives go one after the other over links of their own, each when it has been
// started and the one before is done, as on NCCL's stream: work that comes between start and wait hides them, but for the share
// that the profile says it takes from the work. What is left is waited for: exposed communication.
//
// Copies between a GPU and its host go one after the other over a link of theirs, beside work and collectives. From those they
// take nothing worth counting: 50 GB/s over PCIe are a hundredth of what the device's memory gives. On a CPU, whose memory is the
// host's, work waits for them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/work_tape.hpp"
#include "plan/profile.hpp"

namespace cohort {

/// Seconds of a step on a rank, by what they are spent on.
struct StepSplit {
  double products = 0.0;  // matrix products
  double attention = 0.0;
  double pointwise = 0.0;  // element by element: norms, activations, loss, copies
  double optimizer = 0.0;
  std::map<std::string, double> exposed;  // waiting for collectives, by the first word of the group: "dp", "tp"
  double host_copies = 0.0;               // waiting for copies from and to the host
  double bubble = 0.0;                    // a pipeline: waiting for other stages

  double computing() const { return products + attention + pointwise + optimizer; }
  double communicating() const;  // of `exposed`
  double total() const { return computing() + communicating() + host_copies + bubble; }
  /// this + factor * other, part by part.
  StepSplit plus(const StepSplit& other, double factor) const;
};

struct Replay {
  StepSplit split;
  std::vector<double> clock;   // before each entry, and after the last
  double communication = 0.0;  // of all collectives, hidden or not
  double host_copies = 0.0;    // of all copies from and to the host, hidden or not
};

/// Messages of a pipeline take no time here: its schedule is simulated (step_time.hpp).
Replay replay(const WorkTape& tape, const MachineProfile& profile, int ranks_per_node);

}  // namespace cohort
