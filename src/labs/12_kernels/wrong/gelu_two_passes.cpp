// bias_gelu_forward: something of x was read after it was written over
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

// Two passes by way of out: x is gone if out is x.
void bias_gelu_forward(std::span<float> out, std::span<const float> x, std::span<const float> bias) {
  const std::size_t columns = bias.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i] + bias[i % columns];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float z = x[i] + bias[i % columns];
    out[i] = 0.5f * z * (1.0f + std::tanh(0.7978845608f * (z + 0.044715f * z * z * z)));
  }
}
