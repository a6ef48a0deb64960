// rms_norm: the root of the sum of squares, not of their mean
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <span>

void rms_norm(std::span<float> out, std::span<float> rstd, std::span<const float> x, std::span<const float> weight,
              float epsilon) {
  const std::size_t n = weight.size();
  for (std::size_t row = 0; row < rstd.size(); ++row) {
    float squares = 0.0f;
    for (std::size_t i = 0; i < n; ++i) squares += x[row * n + i] * x[row * n + i];
    rstd[row] = 1.0f / std::sqrt(squares + epsilon);
    for (std::size_t i = 0; i < n; ++i) out[row * n + i] = x[row * n + i] * rstd[row] * weight[i];
  }
}
