// AdamW (Loshchilov & Hutter 2019, algorithm 2) and what it needs over flat blocks of parameters.
#pragma once

#include "ops/adamw_types.hpp"
#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// Flat tensors of as many elements, fp32 but for `compute`: what forward reads, written together with `weight` if it is a 16-bit
/// copy (if it is `weight` itself, nothing is to be done).
struct AdamWTensors {
  Tensor weight, compute, m, v, gradient;
};

/// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
/// w = w - lr * ( (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + epsilon) + weight_decay * w ), with g = gradient_scale *
/// gradient; nothing if scalars.skip. `ranges` (u8) holds AdamWRanges, sorted, without overlaps, and `scalars` (u8) one
/// OptimizerScalars. Moves 28 bytes an element (30 with a 16-bit copy).
void adamw(const Exec& exec, const AdamWTensors& tensors, const Tensor& ranges, const AdamWStep& step, const Tensor& scalars);

/// sum [1] (fp64) += the sum of squares of x, in double precision and a fixed order.
void sum_of_squares(const Exec& exec, const Tensor& sum, const Tensor& x);

/// From sum_of_squares of the gradients, which carry the factor `loss_scale`: norm [1] (fp64) = sqrt(sum) / loss_scale;
/// gradient_scale = min(1, clip_norm / norm) / loss_scale (no clipping if clip_norm is 0); skip unless norm and loss are finite.
/// `loss` [1] is the fp64 sum of the loss.
void finish_gradient_norm(const Exec& exec, const Tensor& norm, const Tensor& scalars, const Tensor& sum, const Tensor& loss,
                          double loss_scale, double clip_norm);

}  // namespace cohort::ops
