// AdamW (Loshchilov & Hutter 2019, algorithm 2) and what it needs over flat blocks of parameters.
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

struct AdamWStep {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;    // 0 for norms and biases
  float gradient_scale;  // multiplies the gradient first: clipping
  Count step;            // 1 for the first step: bias correction
};

/// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
/// w = w - lr * ( (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + epsilon) + weight_decay * w ), with g = gradient_scale *
/// gradient. All tensors have as many elements. Moves 28 bytes an element.
void adamw(const Exec& exec, const Tensor& weight, const Tensor& m, const Tensor& v, const Tensor& gradient,
           const AdamWStep& step);

/// Sum of squares in double precision, in a fixed order.
double sum_of_squares(const Exec& exec, const Tensor& x);

/// x *= factor.
void scale(const Exec& exec, const Tensor& x, float factor);

}  // namespace cohort::ops
