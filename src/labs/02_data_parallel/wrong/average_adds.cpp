// average_gradients: that is the sum of the ranks' means
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// A sum is no mean.
void average_gradients(std::span<float> first, std::size_t first_tokens, std::span<float> second, std::size_t second_tokens) {
  (void)first_tokens, (void)second_tokens;
  for (std::size_t i = 0; i < first.size(); ++i) second[i] = first[i] += second[i];
}
