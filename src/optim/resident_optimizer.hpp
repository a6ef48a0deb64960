// The optimizer over what a rank owns of a model, with its state beside the weights.
#pragma once

#include <memory>
#include <vector>

#include "optim/matrix_work.hpp"
#include "optim/optimizer.hpp"

namespace cohort {

class ResidentOptimizer : public Optimizer {
 public:
  /// Allocates the slots, all zero. A parameter that a segment holds whole gets them as its optimizer_state. `holders` says who
  /// holds the matrices that are updated as wholes; without a group, this rank holds all of each.
  ResidentOptimizer(std::vector<OwnedSegment> owned, const OptimizerSection& section, MatrixHolders holders = {});

  /// On a GPU all of it is put on the compute stream; the host does not wait.
  void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const override;
  std::vector<StateElements> slots(std::size_t run) const override;

 private:
  UpdateTensors tensors_of(std::size_t run) const;

  std::vector<std::vector<Tensor>> slots_;  // of each run
  std::vector<Tensor> ranges_;              // of each run, where the optimizer runs; undefined for matrices
  std::unique_ptr<MatrixWork> matrices_;    // null: no run is updated in whole matrices
};

}  // namespace cohort
