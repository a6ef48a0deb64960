// AdamW (Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2) and the sum of squares.
#pragma once

#include <cmath>

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

struct AdamWState {
  Array weight, m, v;
};

struct AdamWSettings {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double gradient_scale;  // multiplies the gradient first
  Count step;             // 1 for the first
};

/// One step. m and v are running means of the gradient and of its square that begin at 0; dividing by 1 - beta^step makes up for
/// that beginning. Weight decay acts on the weight beside the adaptive step, not through the gradient: that is the W of AdamW.
inline void adamw(AdamWState& state, Input gradient, const AdamWSettings& s) {
  for (Count i = 0; i < static_cast<Count>(gradient.size()); ++i) {
    const double g = s.gradient_scale * gradient[i];
    state.m[i] = s.beta1 * state.m[i] + (1.0 - s.beta1) * g;
    state.v[i] = s.beta2 * state.v[i] + (1.0 - s.beta2) * g * g;
    const double m_hat = state.m[i] / (1.0 - std::pow(s.beta1, static_cast<double>(s.step)));
    const double v_hat = state.v[i] / (1.0 - std::pow(s.beta2, static_cast<double>(s.step)));
    state.weight[i] -= s.learning_rate * (m_hat / (std::sqrt(v_hat) + s.epsilon) + s.weight_decay * state.weight[i]);
  }
}

inline double sum_of_squares(Input x) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  return sum;
}

}  // namespace cohort::ops::reference
