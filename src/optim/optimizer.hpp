// What a training step knows of an optimizer, wherever its state lies.
#pragma once

#include <vector>

#include "ops/exec.hpp"
#include "tensor/owned.hpp"
#include "tensor/state_elements.hpp"

namespace cohort {

class Optimizer {
 public:
  explicit Optimizer(std::vector<OwnedSegment> owned) : owned_(std::move(owned)) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every element that is owned, and its copy that layers read if it has one, from its gradient, as `decisions` (one
  /// ops::OptimizerScalars, where the gradients lie) says; `step` is 0 for the first.
  virtual void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const = 0;

  /// The moments of a segment, in the order of its other tensors: all zero before the first step. Not to be used during a step.
  struct Moments {
    StateElements m, v;
  };
  virtual Moments moments(std::size_t segment) const = 0;

  const std::vector<OwnedSegment>& owned() const { return owned_; }

 protected:
  std::vector<OwnedSegment> owned_;
};

}  // namespace cohort
