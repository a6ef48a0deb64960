// average_gradients: a mean of no tokens is not a number
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// 0 times not a number is not a number.
void average_gradients(std::span<float> first, std::size_t first_tokens, std::span<float> second, std::size_t second_tokens) {
  const float a = static_cast<float>(first_tokens), b = static_cast<float>(second_tokens);
  for (std::size_t i = 0; i < first.size(); ++i) second[i] = first[i] = (a * first[i] + b * second[i]) / (a + b);
}
