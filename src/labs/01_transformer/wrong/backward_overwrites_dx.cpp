// rms_norm_backward: what the other readers of x have added
#include <cohort/lab01_transformer.hpp>
#include <span>

void rms_norm_backward(std::span<float> dx, std::span<float> dweight, std::span<const float> dout, std::span<const float> x,
                       std::span<const float> weight, std::span<const float> rstd) {
  const std::size_t n = weight.size();
  for (std::size_t row = 0; row < rstd.size(); ++row) {
    const std::size_t first = row * n;
    float mean = 0.0f;
    for (std::size_t i = 0; i < n; ++i) mean += dout[first + i] * weight[i] * x[first + i] * rstd[row] / static_cast<float>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const float y = x[first + i] * rstd[row];
      dx[first + i] = rstd[row] * (dout[first + i] * weight[i] - y * mean);
      dweight[i] += dout[first + i] * y;
    }
  }
}
