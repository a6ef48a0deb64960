// Where the time of a step goes. One phase runs at a time: a scope opened inside another takes over the clock until it closes, so
// that waiting for a gradient inside backward counts as communication and not as backward too, and the phases never add up to
// more than the step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "observe/clock.hpp"
#include "observe/tracer.hpp"
#include "observe/waiting.hpp"

namespace cohort {

/// On a GPU forward, backward, communication and optimizer are the times that it takes the host to put the work on the device;
/// `device` is the wait for it at the end of the step.
enum class Phase : std::uint8_t { data, forward, backward, communication, optimizer, device, validation, checkpoint };

inline constexpr std::array<Phase, 8> kPhases{Phase::data,      Phase::forward, Phase::backward,   Phase::communication,
                                              Phase::optimizer, Phase::device,  Phase::validation, Phase::checkpoint};

/// "data", "forward", ...: the names in metrics.jsonl.
std::string_view name_of(Phase phase);

/// For one thread: the one that runs the step.
class StepTimers {
 public:
  /// `waited` tells how many seconds this thread has waited for other ranks so far.
  explicit StepTimers(Clock clock = steady_seconds, Clock waited = seconds_waited)
      : clock_(clock), step_begin_(clock()), mark_(step_begin_), waited_(waited), waited_mark_(waited()) {}

  /// Sets all phases to zero and starts the step's own clock. No scope may be open.
  void begin_step();

  /// Seconds spent in a phase since begin_step(); an open scope counts up to the last change of phase.
  double seconds(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  /// Seconds of the step that this rank worked and did not wait for others: data, forward, backward, communication and optimizer,
  /// less the waits in them. On a GPU it is only the host's part: its waits for the device, whose kernels work and communicate,
  /// cannot be told apart.
  double own_work() const { return own_work_; }
  /// Exposed communication: seconds of the step in which this rank waited for other ranks and computed nothing, validation and
  /// checkpoints left out. On a CPU: those in which the thread of the step waited in operations among ranks
  /// (observe/waiting.hpp). On a GPU: those in which the compute stream waited for operations on the communication stream; the
  /// host's waits, during which the device works, do not count until it is done. What overlaps with work is not exposed.
  double exposed() const { return exposed_ + (current_ == kNoPhase ? waited_() - waited_mark_ : 0.0); }
  /// ... as a share of training_seconds().
  double exposed_share() const { return training_seconds() > 0.0 ? exposed() / training_seconds() : 0.0; }
  /// On a GPU, when it is done with the step and no scope is open: what the device says takes the place of the host's waits so
  /// far.
  void set_exposed(double seconds) {
    exposed_ = seconds;
    waited_mark_ = waited_();
  }
  /// Seconds since begin_step().
  double step_seconds() const { return clock_() - step_begin_; }
  /// Of these, those in which the model was trained: without validation and checkpoints.
  double training_seconds() const { return step_seconds() - seconds(Phase::validation) - seconds(Phase::checkpoint); }

  /// `entered` is called in each scope that opens, and takes time of its phase; what it throws comes out of scope(), which is
  /// closed again. For who must act at the borders of phases: faults that were asked for.
  void on_entry(std::function<void(Phase)> entered) { entered_ = std::move(entered); }

  /// Counts the time until the end of the C++ scope into a phase.
  class Scope {
   public:
    Scope(StepTimers& timers, Phase phase) : Scope(timers, timers.switch_to(static_cast<int>(phase)), phase) {
      if (timers.entered_) timers.entered_(phase);  // if this throws, the destructor runs: the other constructor is through
    }
    ~Scope() {
      timers_.switch_to(outer_);
      span_.end_at(timers_.mark_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Scope(StepTimers& timers, int outer, Phase phase)  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): literals
        : timers_(timers), outer_(outer), span_(TraceSpan::Kind::phase, name_of(phase).data()) {
      span_.begin_at(timers.mark_);
    }

    StepTimers& timers_;
    int outer_;
    TraceScope span_;
  };
  [[nodiscard]] Scope scope(Phase phase) { return Scope(*this, phase); }

 private:
  static constexpr int kNoPhase = -1;

  // Books the time since the last change on the phase that ran, and returns that phase.
  int switch_to(int phase);

  Clock clock_;
  std::function<void(Phase)> entered_;
  double step_begin_;
  double mark_;  // when the current phase began to run
  int current_ = kNoPhase;
  std::array<double, kPhases.size()> seconds_{};
  Clock waited_;
  double waited_mark_;  // waited_() when the current phase began to run
  double own_work_ = 0.0;
  double exposed_ = 0.0;
};

}  // namespace cohort
