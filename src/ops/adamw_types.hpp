// The plain structs of AdamW (ops/adamw.hpp), in a header of their own so that GPU sources can have them without the tensor.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace cohort::ops {

/// What the gradient's norm decides about a step. It lies where the optimizer runs, so that a GPU need not ask the host.
struct OptimizerScalars {
  float gradient_scale = 1.0f;  // multiplies the gradient: clipping, and the inverse of the loss scale
  std::int32_t skip = 0;        // not 0: loss or gradient is not finite, and the step leaves everything as it was
};

struct AdamWStep {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  Count step;  // 1 for the first step: bias correction
};

/// Elements [begin, end) of the flat tensors; neighbours with the same decay share a range.
struct AdamWRange {
  Count begin;
  Count end;
  float weight_decay;  // 0 for norms and biases
};

}  // namespace cohort::ops
