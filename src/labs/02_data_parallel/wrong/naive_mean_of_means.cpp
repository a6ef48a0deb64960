// naive_data_parallel: that is the mean of the ranks' means
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// What DistributedDataParallel does, and what is right while all ranks have as many tokens.
void naive_data_parallel(Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens) {
  (void)tokens;
  for (const std::span<float> gradient : gradients) {
    replicas.all_reduce(gradient);
    for (float& element : gradient) element /= static_cast<float>(replicas.ranks());
  }
}
