// Clipping of the gradient by its global norm (Pascanu et al. 2013).
#pragma once

#include "ops/exec.hpp"
#include "optim/step_scalars.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// From the (global) gradients, which carry the factor `loss_scale`, and scalars.loss: fills squares, norm and decisions. The
/// norm is Euclidean, over all gradients, each element counted once, summed in double precision; the optimizer then scales the
/// gradient so that its norm is at most `clip_norm` (0 = no clipping), or skips the step if norm or loss is not finite.
void decide_update(const ops::Exec& exec, const ParameterRegistry& parameters, const StepScalars& scalars, double loss_scale,
                   double clip_norm);

}  // namespace cohort
