// bias_gelu_forward: the form with erf
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

// The exact GELU.
void bias_gelu_forward(std::span<float> out, std::span<const float> x, std::span<const float> bias) {
  const std::size_t columns = bias.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float z = x[i] + bias[i % columns];
    out[i] = 0.5f * z * (1.0f + std::erf(z * 0.70710678f));
  }
}
