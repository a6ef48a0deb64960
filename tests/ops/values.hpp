// Inputs for the tests of ops: random numbers that are exact in fp32, so that an op and its double-precision reference start from
// the same values and differ by the op's rounding alone.
#pragma once

#include "base/random.hpp"
#include "ops/reference/array.hpp"

namespace cohort::ops {

using reference::Array;
using reference::Input;

/// Normal numbers of standard deviation `scale` around `shift`. `stream` tells the arrays of a test apart.
inline Array random_values(Count elements, std::uint32_t stream, double scale = 1.0, double shift = 0.0) {
  const CounterRandom random(2024, RandomPurpose::test, 0, stream);
  Array values(elements);
  for (Count i = 0; i < elements; ++i) {
    values[i] = static_cast<double>(static_cast<float>(shift + scale * random.normal(static_cast<std::uint64_t>(i))));
  }
  return values;
}

/// Whole numbers in [0, limit).
inline std::vector<std::int32_t> random_indices(Count elements, Count limit, std::uint32_t stream) {
  const CounterRandom random(2024, RandomPurpose::test, 1, stream);
  std::vector<std::int32_t> indices(elements);
  for (Count i = 0; i < elements; ++i) {
    indices[i] = static_cast<std::int32_t>(random.uniform(static_cast<std::uint64_t>(i)) * static_cast<double>(limit));
  }
  return indices;
}

/// For samples [batch, tokens] packed with documents of `mean` tokens on average: the position of the first token of each token's
/// document. Short and long ones: each token begins a document with probability 1 / mean, the first always.
inline std::vector<std::int32_t> random_first_keys(Count batch, Count tokens, Count mean, std::uint32_t stream) {
  const std::vector<std::int32_t> dice = random_indices(batch * tokens, mean, stream);
  std::vector<std::int32_t> first_keys(dice.size());
  for (Count i = 0; i < batch * tokens; ++i)
    first_keys[i] = i % tokens == 0 || dice[i] == 0 ? static_cast<std::int32_t>(i % tokens) : first_keys[i - 1];
  return first_keys;
}

/// a + b, elementwise: what an op that accumulates must leave behind.
inline Array sum(Input a, Input b) {
  Array result(a.begin(), a.end());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] += b[i];
  return result;
}

/// sum of a_i b_i: a loss with known gradient b (or a).
inline double dot(Input a, Input b) {
  double result = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) result += a[i] * b[i];
  return result;
}

}  // namespace cohort::ops
