#include "observe/timers.hpp"

#include "base/error.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

// Of the step itself, on every rank; checkpoints and what else rank 0 does for all are not.
bool is_work(Phase phase) { return phase != Phase::device && phase != Phase::validation && phase != Phase::checkpoint; }

// Of training; between the phases of a step it is, too.
bool is_training(int phase) {
  return phase != static_cast<int>(Phase::validation) && phase != static_cast<int>(Phase::checkpoint);
}

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases.size()> kNames{"data",      "forward", "backward",   "communication",
                                                                "optimizer", "device",  "validation", "checkpoint"};
  return kNames[static_cast<std::size_t>(phase)];
}

void StepTimers::begin_step() {
  COHORT_CHECK(current_ == kNoPhase, "a step began while the phase '{}' was open", name_of(static_cast<Phase>(current_)));
  seconds_.fill(0.0);
  own_work_ = exposed_ = 0.0;
  step_begin_ = mark_ = clock_();
  waited_mark_ = waited_();
}

int StepTimers::switch_to(int phase) {
  const double now = clock_();
  const double waited = waited_();
  if (current_ != kNoPhase) seconds_[static_cast<std::size_t>(current_)] += now - mark_;
  if (is_training(current_)) exposed_ += waited - waited_mark_;
  if (current_ != kNoPhase && is_work(static_cast<Phase>(current_))) own_work_ += (now - mark_) - (waited - waited_mark_);
  mark_ = now;
  waited_mark_ = waited;
  const int previous = current_;
  current_ = phase;
  FlightRecorder::of_process().set_activity(phase == kNoPhase ? "between the phases of a step"
                                                              : name_of(static_cast<Phase>(phase)));
  return previous;
}

}  // namespace cohort
