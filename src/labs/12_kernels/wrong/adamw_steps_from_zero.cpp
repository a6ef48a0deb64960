// adamw_fused: steps count from 1
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

// The first step is step 0: it divides by zero.
void adamw_fused(std::span<float> w, std::span<float> m, std::span<float> v, std::span<const float> gradient,
                 const AdamWSettings& settings) {
  const double steps = static_cast<double>(settings.step - 1);
  const float of_m = static_cast<float>(1.0 / (1.0 - std::pow(double{settings.beta1}, steps)));
  const float of_v = static_cast<float>(1.0 / (1.0 - std::pow(double{settings.beta2}, steps)));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float g = settings.gradient_scale * gradient[i];
    m[i] = settings.beta1 * m[i] + (1.0f - settings.beta1) * g;
    v[i] = settings.beta2 * v[i] + (1.0f - settings.beta2) * g * g;
    const float direction = m[i] * of_m / (std::sqrt(v[i] * of_v) + settings.epsilon);
    w[i] -= settings.learning_rate * (direction + settings.weight_decay * w[i]);
  }
}
