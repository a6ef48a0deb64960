// swiglu: something overflowed
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <span>

void swiglu(std::span<float> out, std::span<const float> gate, std::span<const float> up) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float e = std::exp(gate[i]);
    out[i] = gate[i] * e / (1.0f + e) * up[i];
  }
}
