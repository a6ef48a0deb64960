// rotate_half: nothing has become negative
#include <cohort/lab01_transformer.hpp>
#include <span>

void rotate_half(std::span<float> out, std::span<const float> x) {
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[(i + x.size() / 2) % x.size()];
}
