// Ranks that are slower than the others. In a step all ranks wait for the slowest, so the step's time is the same on all; what
// differs is how much of it a rank worked itself (StepTimers::own_work()). Pure: no ranks, no clock.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

class Stragglers {
 public:
  /// A rank is slow if its own work takes this much longer than the median of its like. Ranks of one layout work equally long but
  /// for some per cent; a core that is shared with another process makes it 2, a throttled one 1.5 or so.
  static constexpr double kSlow = 1.3;
  /// ... and if that is at least this part of the step: else nobody would gain much if it were mended.
  static constexpr double kShareOfStep = 0.05;
  /// ... and at least so many seconds in the steps that are compared: the operating system may take a core away for some
  /// hundredths of a second, from any rank.
  static constexpr double kSeconds = 0.1;
  /// A slow rank keeps up again below this; in between it is neither, so that one near the limit is not told of again and again.
  static constexpr double kKeepsUp = 1.15;
  /// A rank that stays slow is told of again when it is so many times slower, or less slow, than it was.
  static constexpr double kChange = 1.5;

  /// `hosts`: of each rank. `stages`: of the pipeline; the ranks r * stages / ranks of one stage have the same work, others need
  /// not.
  Stragglers(std::vector<std::string> hosts, int stages) : hosts_(std::move(hosts)), stages_(stages), told_(hosts_.size(), 0.0) {}

  /// A step of this rank. The first one is left out: it prepares memory and kernels, and on some ranks more than on others.
  void add(Count step, double step_seconds, double own_work);

  /// Steps since the last comparison.
  Count steps() const { return steps_; }
  /// This rank's own work in these steps, seconds a step: what all ranks gather for compare().
  double own_work() const { return steps_ > 0 ? own_work_ / static_cast<double>(steps_) : 0.0; }

  struct Comparison {
    int slowest = 0;                            // the rank furthest above the median of its stage
    double min = 0.0, median = 0.0, max = 0.0;  // own work of all ranks, seconds a step
    std::vector<double> times{};                // of each rank: own work over the median of its stage
    std::string news{};                         // a sentence, if somebody became slow, much slower, or keeps up again
  };
  /// Compares the ranks' own work (seconds a step, in the order of ranks), and starts over. steps() must not be 0.
  Comparison compare(std::span<const double> own_work);

 private:
  std::string news_of(std::span<const double> own_work, std::span<const double> usual);

  std::vector<std::string> hosts_;
  int stages_;
  std::vector<double> told_;  // of each rank: how many times slower it was when it was told of; 0: it is not slow
  bool warm_ = false;
  Count first_step_ = 0, last_step_ = 0, steps_ = 0;
  double step_seconds_ = 0.0, own_work_ = 0.0;  // sums
};

}  // namespace cohort
