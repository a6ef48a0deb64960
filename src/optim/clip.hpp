// Clipping of the gradient by its global norm (Pascanu et al. 2013).
#pragma once

#include "ops/exec.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// Euclidean norm over all gradients, each element counted once, summed in double precision. The gradients must be the global
/// ones.
double gradient_norm(const ops::Exec& exec, const ParameterRegistry& parameters);

/// What to multiply the gradients by so that their norm is at most `clip_norm`: 1 if it already is, or if clip_norm is 0 (off).
double clip_factor(double norm, double clip_norm);

}  // namespace cohort
