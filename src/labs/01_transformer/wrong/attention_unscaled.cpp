// causal_attention: not divided by the root of the head size
#include <algorithm>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <vector>

void causal_attention(std::span<float> out, std::span<const float> q, std::span<const float> k, std::span<const float> v,
                      std::int64_t head_size) {
  const auto size = static_cast<std::size_t>(head_size), tokens = q.size() / size;
  std::vector<float> weights(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::size_t first = 0, end = i + 1;
    float largest = -HUGE_VALF, sum = 0.0f;
    for (std::size_t j = first; j < end; ++j) {
      weights[j] = 0.0f;
      for (std::size_t d = 0; d < size; ++d) weights[j] += q[i * size + d] * k[j * size + d] * 1.0f;
      largest = std::max(largest, weights[j]);
    }
    for (std::size_t j = first; j < end; ++j) sum += weights[j] = std::exp(weights[j] - largest);
    for (std::size_t d = 0; d < size; ++d) {
      out[i * size + d] = 0.0f;
      for (std::size_t j = first; j < end; ++j) out[i * size + d] += weights[j] / sum * v[j * size + d];
    }
  }
}
