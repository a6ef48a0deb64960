// bias_gelu_forward: the bias is that of the row's number
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

// A bias for each row.
void bias_gelu_forward(std::span<float> out, std::span<const float> x, std::span<const float> bias) {
  const std::size_t columns = bias.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float z = x[i] + bias[i / columns % columns];
    out[i] = 0.5f * z * (1.0f + std::tanh(0.7978845608f * (z + 0.044715f * z * z * z)));
  }
}
