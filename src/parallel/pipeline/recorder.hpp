// The timeline of a step as it really was, for the drawings of timeline.hpp and to hold the bubble against its formula.
#pragma once

#include <memory>
#include <vector>

#include "base/device_kind.hpp"
#include "comm/communicator.hpp"
#include "gpu/device.hpp"
#include "parallel/pipeline/timeline.hpp"

namespace cohort::pipeline {

/// The events of one rank. On a GPU they are the times of the device: from when the compute stream had what an action needed
/// until it was done with it. On a thread that counts they are what its listener calls now.
class Recorder {
 public:
  explicit Recorder(DeviceKind device) : device_(device) {}

  /// Forgets what was recorded. Time 0 is when all ranks have come here; a listener keeps its own. // Collective over: stages
  void begin(Communicator& stages);
  void start(const Action& action) { marks_.push_back({action, now(), {}}); }
  void end() { marks_.back().end = now(); }

  /// In seconds; on a GPU the step must be over.
  std::vector<Event> events(int rank) const;

 private:
  struct Moment {
    double seconds = 0.0;               // on a CPU; of a listener: its own
    std::shared_ptr<gpu::Event> point;  // on a GPU
  };
  struct Mark {
    Action action;
    Moment start, end;
  };
  Moment now() const;
  double since_zero(const Moment& moment) const;

  DeviceKind device_;
  Moment zero_;
  std::vector<Mark> marks_;
};

/// The events of all ranks, on all ranks: ranks ascending, as simulate() gives them. `own` are as many everywhere.
// Collective over: stages, which is the host's
std::vector<Event> gather_events(Communicator& stages, const std::vector<Event>& own);

}  // namespace cohort::pipeline
