#include "optim/clip.hpp"

#include <cmath>

#include "ops/adamw.hpp"

namespace cohort {

double gradient_norm(const ops::Exec& exec, const ParameterRegistry& parameters) {
  return std::sqrt(ops::sum_of_squares(exec, parameters.flat_gradients()));
}

double clip_factor(double norm, double clip_norm) { return clip_norm > 0.0 && norm > clip_norm ? clip_norm / norm : 1.0; }

}  // namespace cohort
