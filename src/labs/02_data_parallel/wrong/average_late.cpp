// average_gradients: is made with first[i] after that was replaced
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// The second loop reads what the first has written.
void average_gradients(std::span<float> first, std::size_t first_tokens, std::span<float> second, std::size_t second_tokens) {
  const float a = static_cast<float>(first_tokens), b = static_cast<float>(second_tokens);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = (a * first[i] + b * second[i]) / (a + b);
  for (std::size_t i = 0; i < first.size(); ++i) second[i] = (a * first[i] + b * second[i]) / (a + b);
}
