// swiglu: ReGLU
#include <algorithm>
#include <cohort/lab01_transformer.hpp>
#include <span>

void swiglu(std::span<float> out, std::span<const float> gate, std::span<const float> up) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(0.0f, gate[i]) * up[i];
}
