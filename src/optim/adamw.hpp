// The AdamW optimizer over what a rank owns of a model, with its moments beside the weights. Matrices decay; norms and biases do
// not.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "optim/optimizer.hpp"

namespace cohort {

class AdamW : public Optimizer {
 public:
  /// Allocates the moments, all zero. A parameter that a segment holds whole gets them as "m" and "v" of its optimizer_state.
  AdamW(std::vector<OwnedSegment> owned, const OptimizerSection& config);

  /// On a GPU all of it is put on the compute stream; the host does not wait.
  void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const override;
  Moments moments(std::size_t segment) const override { return {moments_[segment].m, moments_[segment].v}; }

 private:
  struct SegmentMoments {
    Tensor m, v;
  };
  OptimizerSection config_;
  std::vector<SegmentMoments> moments_;
  std::vector<Tensor> ranges_;  // of each segment (adamw_settings.hpp), where the optimizer runs
};

}  // namespace cohort
