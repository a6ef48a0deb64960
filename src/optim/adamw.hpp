// The AdamW optimizer over what a rank owns of a model. Matrices decay; norms and biases do not.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "ops/adamw.hpp"
#include "tensor/owned.hpp"

namespace cohort {

class AdamW {
 public:
  /// Allocates the moments, all zero. A parameter that a segment holds whole gets them as "m" and "v" of its optimizer_state.
  AdamW(std::vector<OwnedSegment> owned, const OptimizerSection& config);

  /// Updates every element that is owned, and its 16-bit copy if it has one, from its gradient, as `decisions` (one
  /// ops::OptimizerScalars) says; `step` is 0 for the first.
  void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const;

  /// The moments of each segment, in the order of its other tensors.
  struct Moments {
    Tensor m, v;
  };
  const std::vector<OwnedSegment>& owned() const { return owned_; }
  const Moments& moments(std::size_t segment) const { return moments_[segment]; }

 private:
  std::vector<OwnedSegment> owned_;
  OptimizerSection config_;
  std::vector<Moments> moments_;
  std::vector<Tensor>
      ranges_;  // ops::AdamWRange for each run of neighbouring pieces with the same decay, where the optimizer runs
};

}  // namespace cohort
