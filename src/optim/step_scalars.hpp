// The few numbers of a step that ranks, optimizer and host share: loss, gradient norm, and what they decide. They lie where the
// step runs; the host reads them once, at the step's end.
#pragma once

#include "ops/adamw.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

class StepScalars {
 public:
  explicit StepScalars(DeviceKind device);
  StepScalars(const StepScalars&) = delete;
  StepScalars& operator=(const StepScalars&) = delete;

  /// Sets all to zero, for a new step.
  void begin() const { memory_.zero(); }

  // Each [1], fp64, but for `decisions`: one ops::OptimizerScalars.
  const Tensor& own_loss() const { return own_loss_; }  // of this rank's samples
  const Tensor& loss() const { return loss_; }          // of all ranks
  const Tensor& squares() const { return squares_; }    // sum of squares of the gradients
  const Tensor& norm() const { return norm_; }
  const Tensor& decisions() const { return decisions_; }

  struct Values {
    double own_loss = 0.0;
    double loss = 0.0;
    double squares = 0.0;
    double norm = 0.0;
    ops::OptimizerScalars decisions;
  };
  /// Puts the way to the host behind the step on the compute stream. After the stream was synchronised, values() has them.
  void fetch() const;
  const Values& values() const { return *reinterpret_cast<const Values*>(on_host_.raw()); }

 private:
  Tensor memory_;  // a Values
  Tensor own_loss_, loss_, squares_, norm_, decisions_;
  Tensor on_host_;  // the memory itself on a CPU, pinned host memory on a GPU
};

}  // namespace cohort
