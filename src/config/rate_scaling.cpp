#include "config/rate_scaling.hpp"

#include <fmt/format.h>

#include <cmath>

namespace cohort {
namespace {

double rate_factor(const RunConfig& config) {
  const OptimizerSection& optimizer = config.optimizer;
  if (optimizer.rate_scaling == "none") return 1.0;
  const double times = static_cast<double>(config.train.global_batch) / static_cast<double>(optimizer.rate_batch);
  return optimizer.rate_scaling == "sqrt" ? std::sqrt(times) : times;
}

}  // namespace

double peak_learning_rate(const RunConfig& config) { return config.optimizer.learning_rate * rate_factor(config); }

std::string scaled_rate_in_words(const RunConfig& config) {
  const OptimizerSection& optimizer = config.optimizer;
  if (optimizer.rate_scaling == "none") return "";
  return fmt::format("{:.6g} = {:g} x {:.4g} ({}: train.global_batch {} / optimizer.rate_batch {})", peak_learning_rate(config),
                     optimizer.learning_rate, rate_factor(config), optimizer.rate_scaling, config.train.global_batch,
                     optimizer.rate_batch);
}

}  // namespace cohort
