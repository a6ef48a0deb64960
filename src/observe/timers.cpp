#include "observe/timers.hpp"

#include "base/error.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases.size()> kNames{"data",      "forward", "backward",   "communication",
                                                                "optimizer", "device",  "validation", "checkpoint"};
  return kNames[static_cast<std::size_t>(phase)];
}

void StepTimers::begin_step() {
  COHORT_CHECK(current_ == kNoPhase, "a step began while the phase '{}' was open", name_of(static_cast<Phase>(current_)));
  seconds_.fill(0.0);
  step_begin_ = mark_ = clock_();
}

int StepTimers::switch_to(int phase) {
  const double now = clock_();
  if (current_ != kNoPhase) seconds_[static_cast<std::size_t>(current_)] += now - mark_;
  mark_ = now;
  const int previous = current_;
  current_ = phase;
  FlightRecorder::of_process().set_activity(phase == kNoPhase ? "between the phases of a step"
                                                              : name_of(static_cast<Phase>(phase)));
  return previous;
}

}  // namespace cohort
