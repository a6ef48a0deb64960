// cosine_schedule: the cosine starts above the peak
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <numbers>

double cosine_schedule(const CosineSchedule& schedule, std::int64_t step) {
  const auto& [warmup, decay, peak, floor] = schedule;
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (step > decay) return floor;
  const double progress = static_cast<double>(step - 1 - warmup) / static_cast<double>(decay - warmup);
  return floor + peak * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}
