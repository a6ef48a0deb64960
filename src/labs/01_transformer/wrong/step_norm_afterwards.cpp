// train_step: that is the norm after clipping
#include <cmath>
#include <cohort/lab01_transformer.hpp>

StepOutcome train_step(Training& training, double learning_rate, double clip_norm) {
  std::int64_t tokens = 0;
  for (int m = 0; m < training.micro_batches(); ++m) tokens += training.tokens(m);
  training.zero_gradients();
  StepOutcome outcome{};
  for (int m = 0; m < training.micro_batches(); ++m) {
    if (training.tokens(m) == 0) continue;
    const double share = static_cast<double>(training.tokens(m)) / static_cast<double>(tokens);
    outcome.loss += share * training.forward_backward(m, share);
  }
  double squares = 0;
  for (const float gradient : training.gradients()) squares += static_cast<double>(gradient) * gradient;
  outcome.gradient_norm = std::sqrt(squares);
  if (clip_norm > 0.0 && outcome.gradient_norm > clip_norm) {
    const double factor = clip_norm / outcome.gradient_norm;
    for (float& gradient : training.gradients()) gradient = static_cast<float>(gradient * factor);
    outcome.gradient_norm = clip_norm;
  }
  training.optimizer_step(learning_rate);
  return outcome;
}
