// A logical tensor on its way to or from a checkpoint.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/reader.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

struct StoredTensor {
  std::string dataset;  // "/model/...", "/optim/m/..."
  Shape shape;          // of the whole tensor
  DType dtype = DType::f32;
  std::function<Tensor()> read;  // for saving: all of it, in host memory; called once, in the order of the tensors
};

/// Throws Error(checkpoint), before anything is read, unless the file holds exactly the tensors of this model (those under
/// /model) and at least this optimizer state (under /optim), of these shapes and types.
void check_stored(const CheckpointReader& reader, std::string_view model, const std::vector<StoredTensor>& tensors);

}  // namespace cohort
