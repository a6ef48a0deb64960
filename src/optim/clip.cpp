#include "optim/clip.hpp"

namespace cohort {

void decide_update(const ops::Exec& exec, const ParameterRegistry& parameters, const StepScalars& scalars, double loss_scale,
                   double clip_norm) {
  ops::sum_of_squares(exec, scalars.squares(), parameters.flat_gradients());
  ops::finish_gradient_norm(exec, scalars.norm(), scalars.decisions(), scalars.squares(), scalars.loss(), loss_scale, clip_norm);
}

}  // namespace cohort
