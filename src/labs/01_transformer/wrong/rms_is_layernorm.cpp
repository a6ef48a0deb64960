// rms_norm: that is LayerNorm: RMSNorm subtracts no mean
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <span>

void rms_norm(std::span<float> out, std::span<float> rstd, std::span<const float> x, std::span<const float> weight,
              float epsilon) {
  const std::size_t n = weight.size();
  for (std::size_t row = 0; row < rstd.size(); ++row) {
    double mean = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) mean += x[row * n + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) squares += (x[row * n + i] - mean) * (x[row * n + i] - mean);
    rstd[row] = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + epsilon));
    for (std::size_t i = 0; i < n; ++i) out[row * n + i] = static_cast<float>(x[row * n + i] - mean) * rstd[row] * weight[i];
  }
}
