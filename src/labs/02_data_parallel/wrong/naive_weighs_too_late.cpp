// naive_data_parallel: only then weighed by the tokens of this rank
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// Each rank weighs the sum by its own tokens: the replicas get different gradients.
void naive_data_parallel(Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens) {
  std::vector<float> all{static_cast<float>(tokens)};
  replicas.all_reduce(all);
  for (const std::span<float> gradient : gradients) {
    replicas.all_reduce(gradient);
    for (float& element : gradient) element *= static_cast<float>(tokens) / all[0];
  }
}
