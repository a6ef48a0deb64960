// Layer normalisation (Ba, Kiros & Hinton 2016, "Layer Normalization") and RMS normalisation (Zhang & Sennrich 2019, "Root Mean
// Square Layer Normalization"). Both scale each row of x [R, C] to unit size and then each column by a learned weight.
#pragma once

#include <cmath>

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

struct NormForward {
  Array out;   // [R, C]
  Array mean;  // [R]; empty for RMS
  Array rstd;  // [R], 1 / standard deviation, or 1 / root mean square
};

struct NormBackward {
  Array dx;       // [R, C]
  Array dweight;  // [C]
  Array dbias;    // [C]; empty for RMS
};

/// out = xhat * weight + bias, xhat = (x - mean) * rstd, rstd = 1 / sqrt(variance + epsilon), variance = mean((x - mean)^2).
inline NormForward layernorm_forward(Input x, Input weight, Input bias, Count rows, Count width, double epsilon) {
  NormForward result{Array(rows * width), Array(rows), Array(rows)};
  for (Count r = 0; r < rows; ++r) {
    double mean = 0.0;
    for (Count c = 0; c < width; ++c) mean += x[r * width + c] / static_cast<double>(width);
    double variance = 0.0;
    for (Count c = 0; c < width; ++c) variance += std::pow(x[r * width + c] - mean, 2) / static_cast<double>(width);
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    for (Count c = 0; c < width; ++c) result.out[r * width + c] = (x[r * width + c] - mean) * rstd * weight[c] + bias[c];
    result.mean[r] = mean;
    result.rstd[r] = rstd;
  }
  return result;
}

/// With g = dout * weight, the gradient that reaches xhat:
///   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  dweight = sum over rows of dout * xhat,  dbias = sum over rows of dout.
/// The two means are what x does to its own mean and variance: dx is g without its parts along (1, ..., 1) and along xhat.
inline NormBackward layernorm_backward(Input dout, Input x, Input weight, Count rows, Count width, double epsilon) {
  const Array no_bias(width, 0.0);
  const NormForward forward = layernorm_forward(x, weight, no_bias, rows, width, epsilon);
  NormBackward result{Array(rows * width), Array(width, 0.0), Array(width, 0.0)};
  for (Count r = 0; r < rows; ++r) {
    const auto xhat = [&](Count c) { return (x[r * width + c] - forward.mean[r]) * forward.rstd[r]; };
    const auto g = [&](Count c) { return dout[r * width + c] * weight[c]; };
    double mean_g = 0.0;
    double mean_g_xhat = 0.0;
    for (Count c = 0; c < width; ++c) {
      mean_g += g(c) / static_cast<double>(width);
      mean_g_xhat += g(c) * xhat(c) / static_cast<double>(width);
      result.dweight[c] += dout[r * width + c] * xhat(c);
      result.dbias[c] += dout[r * width + c];
    }
    for (Count c = 0; c < width; ++c) result.dx[r * width + c] = forward.rstd[r] * (g(c) - mean_g - xhat(c) * mean_g_xhat);
  }
  return result;
}

/// out = xhat * weight, xhat = x * rstd, rstd = 1 / sqrt(mean(x^2) + epsilon).
inline NormForward rmsnorm_forward(Input x, Input weight, Count rows, Count width, double epsilon) {
  NormForward result{Array(rows * width), {}, Array(rows)};
  for (Count r = 0; r < rows; ++r) {
    double mean_square = 0.0;
    for (Count c = 0; c < width; ++c) mean_square += std::pow(x[r * width + c], 2) / static_cast<double>(width);
    const double rstd = 1.0 / std::sqrt(mean_square + epsilon);
    for (Count c = 0; c < width; ++c) result.out[r * width + c] = x[r * width + c] * rstd * weight[c];
    result.rstd[r] = rstd;
  }
  return result;
}

/// As for layernorm, without the mean: dx = rstd * (g - xhat * mean(g * xhat)).
inline NormBackward rmsnorm_backward(Input dout, Input x, Input weight, Count rows, Count width, double epsilon) {
  const NormForward forward = rmsnorm_forward(x, weight, rows, width, epsilon);
  NormBackward result{Array(rows * width), Array(width, 0.0), {}};
  for (Count r = 0; r < rows; ++r) {
    const auto xhat = [&](Count c) { return x[r * width + c] * forward.rstd[r]; };
    const auto g = [&](Count c) { return dout[r * width + c] * weight[c]; };
    double mean_g_xhat = 0.0;
    for (Count c = 0; c < width; ++c) {
      mean_g_xhat += g(c) * xhat(c) / static_cast<double>(width);
      result.dweight[c] += dout[r * width + c] * xhat(c);
    }
    for (Count c = 0; c < width; ++c) result.dx[r * width + c] = forward.rstd[r] * (g(c) - xhat(c) * mean_g_xhat);
  }
  return result;
}

}  // namespace cohort::ops::reference
