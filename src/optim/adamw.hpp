// The AdamW optimizer over a model's parameters. Matrices decay; norms and biases do not.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "ops/exec.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

class AdamW {
 public:
  /// Allocates the moments, "m" and "v" in each parameter's optimizer_state, all zero.
  AdamW(const ParameterRegistry& parameters, const OptimizerSection& config);

  /// Updates every parameter from its gradient. `gradient_scale` multiplies the gradients (clipping); `step` is 0 for the first.
  void step(const ops::Exec& exec, double learning_rate, double gradient_scale, Count step) const;

 private:
  // Neighbouring parameters with the same decay, as one range of the flat tensors.
  struct Group {
    Count begin, end;
    bool decays;
  };

  const ParameterRegistry& parameters_;
  OptimizerSection config_;
  Tensor m_, v_;  // [elements], in the order of the flat values
  std::vector<Group> groups_;
};

}  // namespace cohort
