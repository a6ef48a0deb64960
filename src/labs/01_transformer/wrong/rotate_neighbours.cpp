// rotate_half: these pairs are neighbours
#include <cohort/lab01_transformer.hpp>
#include <span>

void rotate_half(std::span<float> out, std::span<const float> x) {
  for (std::size_t i = 0; i < x.size(); i += 2) {
    out[i] = -x[i + 1];
    out[i + 1] = x[i];
  }
}
