// Clipping of the gradient by its global norm (Pascanu et al. 2013).
#pragma once

#include <span>

#include "ops/exec.hpp"
#include "optim/step_scalars.hpp"
#include "tensor/owned.hpp"

namespace cohort {

/// scalars.squares += the sum of squares of the gradients that this rank owns and that count, in double precision. If ranks own
/// different elements, the sum over them is the caller's business: each element of the model counts once.
void add_squares(const ops::Exec& exec, std::span<const OwnedSegment> owned, const StepScalars& scalars);

/// From scalars.squares, of gradients which carry the factor `loss_scale`, and scalars.loss, both over all ranks: fills norm and
/// decisions. The norm is Euclidean; the optimizer then scales the gradient so that its norm is at most `clip_norm` (0 = no
/// clipping), or skips the step if norm or loss is not finite.
void decide_update(const ops::Exec& exec, const StepScalars& scalars, double loss_scale, double clip_norm);

}  // namespace cohort
