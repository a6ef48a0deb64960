// What it costs a training step to be watched: the flight recorder's entries, and the processor time of the monitor's thread.
// Computed from its parts, since the sum is far below the noise of a step.
#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace cohort {

/// Processor time of all threads of this process so far.
double processor_seconds();

class WatchCost {
 public:
  /// Operations among ranks from here to measure() are those of `steps` steps.
  WatchCost();
  struct Result {
    double operations;            // of a step, on the rank that has most
    double seconds_of_operation;  // to record one
    double monitor_share;         // of one core, on the rank whose monitor takes most
    /// Of a step of `step_seconds`, if the monitor's time is taken from the step's and not from a core that idles.
    double share_of(double step_seconds) const { return operations * seconds_of_operation / step_seconds + monitor_share; }
  };
  /// Takes about a second and a half, in which this rank sleeps. Collective over `world`.
  Result measure(Communicator& world, double steps) const;

 private:
  std::uint64_t before_;
};

}  // namespace cohort
