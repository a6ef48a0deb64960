// The AdamW optimizer over a model's parameters. Matrices decay; norms and biases do not.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "ops/adamw.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

class AdamW {
 public:
  /// Allocates the moments, "m" and "v" in each parameter's optimizer_state, all zero.
  AdamW(const ParameterRegistry& parameters, const OptimizerSection& config);

  /// Updates every parameter, and its 16-bit copy if it has one, from its gradient, as `decisions` (one ops::OptimizerScalars)
  /// says; `step` is 0 for the first.
  void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const;

 private:
  const ParameterRegistry& parameters_;
  OptimizerSection config_;
  Tensor m_, v_;   // [elements], in the order of the flat values
  Tensor ranges_;  // ops::AdamWRange for each run of neighbouring parameters with the same decay, where the optimizer runs
};

}  // namespace cohort
