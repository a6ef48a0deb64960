#include "optim/schedule.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace cohort {

double learning_rate(const ScheduleSection& schedule, double peak, Count step) {
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
