// Pointwise non-linearities and their slopes, applied to x + bias.
#pragma once

#include <cmath>
#include <numbers>

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

/// The tanh form of GELU (Hendrycks & Gimpel 2016, "Gaussian Error Linear Units", section 2):
/// gelu(z) = z/2 (1 + tanh(u)), u = sqrt(2/pi) (z + 0.044715 z^3).
inline double gelu(double z) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (z + 0.044715 * z * z * z);
  return 0.5 * z * (1.0 + std::tanh(u));
}

/// gelu'(z) = 1/2 (1 + tanh(u)) + z/2 (1 - tanh(u)^2) u', by the product rule, with u' = sqrt(2/pi) (1 + 3 * 0.044715 z^2).
inline double gelu_slope(double z) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (z + 0.044715 * z * z * z);
  const double du = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * z * z);
  const double t = std::tanh(u);
  return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * du;
}

inline double relu(double z) { return z > 0.0 ? z : 0.0; }
inline double relu_slope(double z) { return z > 0.0 ? 1.0 : 0.0; }

/// silu(z) = z s(z) with the logistic function s(z) = 1 / (1 + exp(-z)).
inline double silu(double z) { return z / (1.0 + std::exp(-z)); }

/// silu'(z) = s(z) (1 + z (1 - s(z))), from s' = s (1 - s).
inline double silu_slope(double z) {
  const double s = 1.0 / (1.0 + std::exp(-z));
  return s * (1.0 + z * (1.0 - s));
}

/// out [R, F] = function(x + bias); bias [F].
template <class Function>
Array activation_forward(Input x, Input bias, Count rows, Count width, Function function) {
  Array out(rows * width);
  for (Count r = 0; r < rows; ++r) {
    for (Count f = 0; f < width; ++f) out[r * width + f] = function(x[r * width + f] + bias[f]);
  }
  return out;
}

struct ActivationBackward {
  Array dx;     // [R, F]
  Array dbias;  // [F]
};

/// dx = dout * slope(x + bias); the bias is added to every row, so its gradient is the sum of dx over the rows.
template <class Slope>
ActivationBackward activation_backward(Input dout, Input x, Input bias, Count rows, Count width, Slope slope) {
  ActivationBackward result{Array(rows * width), Array(width, 0.0)};
  for (Count r = 0; r < rows; ++r) {
    for (Count f = 0; f < width; ++f) {
      result.dx[r * width + f] = dout[r * width + f] * slope(x[r * width + f] + bias[f]);
      result.dbias[f] += result.dx[r * width + f];
    }
  }
  return result;
}

/// SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer"): out [R, F] = silu(gate) * up. A row of x [R, 2F] is gate, then up.
inline Array swiglu_forward(Input x, Count rows, Count width) {
  Array out(rows * width);
  for (Count r = 0; r < rows; ++r) {
    for (Count f = 0; f < width; ++f) {
      const double gate = x[r * 2 * width + f];
      const double up = x[r * 2 * width + width + f];
      out[r * width + f] = silu(gate) * up;
    }
  }
  return out;
}

/// dgate = dout * up * silu'(gate), dup = dout * silu(gate), packed as x is.
inline Array swiglu_backward(Input dout, Input x, Count rows, Count width) {
  Array dx(rows * 2 * width);
  for (Count r = 0; r < rows; ++r) {
    for (Count f = 0; f < width; ++f) {
      const double gate = x[r * 2 * width + f];
      const double up = x[r * 2 * width + width + f];
      dx[r * 2 * width + f] = dout[r * width + f] * up * silu_slope(gate);
      dx[r * 2 * width + width + f] = dout[r * width + f] * silu(gate);
    }
  }
  return dx;
}

}  // namespace cohort::ops::reference
