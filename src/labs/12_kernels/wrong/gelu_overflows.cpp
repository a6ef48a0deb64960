// bias_gelu_forward: infinity / infinity
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

// tanh by exp, which overflows.
void bias_gelu_forward(std::span<float> out, std::span<const float> x, std::span<const float> bias) {
  const std::size_t columns = bias.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float z = x[i] + bias[i % columns];
    const float e = std::exp(2.0f * 0.7978845608f * (z + 0.044715f * z * z * z));
    out[i] = 0.5f * z * (1.0f + (e - 1.0f) / (e + 1.0f));
  }
}
