// Sums, biases and dropout masks.
#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

/// x [R, N] + bias [N], for each row.
inline Array add_bias(Input x, Input bias, Count rows, Count width) {
  Array out(rows * width);
  for (Count r = 0; r < rows; ++r) {
    for (Count n = 0; n < width; ++n) out[r * width + n] = x[r * width + n] + bias[n];
  }
  return out;
}

/// dbias [N] = sum over rows of dx [R, N]: the same bias was added to each of them.
inline Array bias_backward(Input dx, Count rows, Count width) {
  Array dbias(width, 0.0);
  for (Count r = 0; r < rows; ++r) {
    for (Count n = 0; n < width; ++n) dbias[n] += dx[r * width + n];
  }
  return dbias;
}

/// x + y + bias, the end of a residual branch; x, y [R, C], bias [C].
inline Array add_residual(Input x, Input y, Input bias, Count rows, Count width) {
  Array out = add_bias(y, bias, rows, width);
  for (Count i = 0; i < rows * width; ++i) out[i] += x[i];
  return out;
}

/// What dropout (Srivastava et al. 2014) multiplies each element by: 0 where it is dropped, 1 / (1 - p) where it is kept, so that
/// the expected value stays what it was. The draw depends on the element's place in the global batch and on nothing else:
///   kept  <=>  uniform(slot * elements of a sample + index in the sample) >= p.
/// slots [B]: the position of each sample in the global batch of the step. Returns [B, elements of a sample].
inline Array dropout_factors(double probability, std::uint64_t seed, std::uint32_t step, std::uint32_t layer,
                             std::span<const Count> slots, Count elements_of_sample) {
  const CounterRandom random(seed, RandomPurpose::dropout, step, layer);
  Array factors;
  for (const Count slot : slots) {
    for (Count i = 0; i < elements_of_sample; ++i) {
      const bool kept = random.uniform(static_cast<std::uint64_t>(slot * elements_of_sample + i)) >= probability;
      factors.push_back(kept ? 1.0 / (1.0 - probability) : 0.0);
    }
  }
  return factors;
}

}  // namespace cohort::ops::reference
