// Where a parallel strategy meets a model: the model calls these as it goes. DDP and sharding are written only with them, so
// that models know nothing of ranks.
#pragma once

#include <string>
#include <vector>

#include "tensor/parameter.hpp"

namespace cohort {

/// A part of a model whose parameters are needed at the same time: the embeddings, a block, the head.
struct Unit {
  std::string name;
  std::vector<Parameter*> parameters;
  bool backward_reads = true;  // whether backward reads the parameters: an embedding's does not
};

class Hooks {
 public:
  virtual ~Hooks() = default;
  /// Before a unit's parameters are read in the forward pass, and after they were.
  virtual void pre_forward(const Unit&) {}
  virtual void post_forward(const Unit&) {}
  /// Before a unit's parameters are read in the backward pass; not called for one with backward_reads false.
  virtual void pre_backward(const Unit&) {}
  /// Before the gradients of a unit's parameters are first added to: in backward, after pre_backward; for a head that computes
  /// its gradients together with the loss, in forward. Once for each unit.
  virtual void pre_gradient(const Unit&) {}
  /// Nothing will be added to this parameter's gradient any more in this backward pass. Called once for each parameter, from the
  /// last unit to the first; for a tied weight after its last use.
  virtual void grad_ready(Parameter&) {}
  /// Backward, loss or last_logits is over.
  virtual void end_pass() {}
};

}  // namespace cohort
