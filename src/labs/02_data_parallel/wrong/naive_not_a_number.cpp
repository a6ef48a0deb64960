// naive_data_parallel: a mean of no tokens is not a number
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// A weight of 0 does not silence what is not a number.
void naive_data_parallel(Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens) {
  std::vector<float> all{static_cast<float>(tokens)};
  replicas.all_reduce(all);
  for (const std::span<float> gradient : gradients) {
    for (float& element : gradient) element *= static_cast<float>(tokens) / all[0];
    replicas.all_reduce(gradient);
  }
}
