// rotate_half: the minus belongs to what comes from the second half
#include <cohort/lab01_transformer.hpp>
#include <span>

void rotate_half(std::span<float> out, std::span<const float> x) {
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = x[half + i];
    out[half + i] = -x[i];
  }
}
