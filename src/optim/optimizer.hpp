// What a training step knows of its optimizer, wherever the state lies: the owned elements, cut into runs that are updated alike,
// and the state slots of each.
#pragma once

#include <vector>

#include "ops/exec.hpp"
#include "optim/parameter_groups.hpp"
#include "tensor/owned.hpp"
#include "tensor/state_elements.hpp"

namespace cohort {

class Optimizer {
 public:
  /// `section` is validated.
  Optimizer(std::vector<OwnedSegment> owned, const OptimizerSection& section);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every element that is owned, and its copy that layers read if it has one, from its gradient, as `decisions` (one
  /// ops::OptimizerScalars, where the gradients lie) says; `step` is 0 for the first.
  // Collective over: the holders of matrices, if the optimizer updates whole ones
  virtual void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const = 0;

  const std::vector<OwnedSegment>& owned() const { return owned_; }

  /// A run of a segment, as a segment of its own, and its group.
  struct Run {
    OwnedSegment segment;
    const ParameterGroup* group;
    const std::vector<SlotSpec>& slots() const { return group->kind->rules.slots; }
  };
  /// All that is owned, in the order of owned().
  const std::vector<Run>& runs() const { return runs_; }
  /// The slots of a run, in the order of its other tensors: all zero before the first step. Not to be used during a step.
  virtual std::vector<StateElements> slots(std::size_t run) const = 0;

 protected:
  static GroupStep step_of(const ParameterGroup& group, double learning_rate, Count step) {
    return {group.settings, learning_rate * group.settings.learning_rate_factor, step + 1};
  }

  ParameterGroups groups_;
  std::vector<OwnedSegment> owned_;
  std::vector<Run> runs_;
};

}  // namespace cohort
