#include "optim/schedule.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

OwnCosine& own_cosine() {
  static OwnCosine function;
  return function;
}

double by_own_cosine(const ScheduleSection& schedule, double peak, Count step) {
  if (schedule.kind != "cosine")
    throw SharedError(ExitCode::usage,
                      fmt::format("schedule.kind = \"{}\": with a cosine schedule of your own choose cosine", schedule.kind));
  return own_cosine()(schedule, peak, step + 1);
}

}  // namespace

void use_own_cosine(OwnCosine cosine) { own_cosine() = std::move(cosine); }

double learning_rate(const ScheduleSection& schedule, double peak, Count step) {
  if (own_cosine()) return by_own_cosine(schedule, peak, step);
  const Count warmup = schedule.warmup_steps;
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.kind == "constant") return peak;
  const double last = peak * schedule.final_fraction;
  if (step >= schedule.decay_steps) return last;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(schedule.decay_steps - warmup);
  if (schedule.kind == "linear") return peak + (last - peak) * progress;
  COHORT_CHECK(schedule.kind == "cosine", "schedule.kind = {}", schedule.kind);
  return last + (peak - last) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace cohort
