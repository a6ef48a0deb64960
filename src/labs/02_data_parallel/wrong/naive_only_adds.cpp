// naive_data_parallel: that is the sum of the ranks' means
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// A sum is no mean: the step is as many times too long as there are ranks.
void naive_data_parallel(Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens) {
  (void)tokens;
  for (const std::span<float> gradient : gradients) replicas.all_reduce(gradient);
}
