// mean_over_ranks: that is the mean of the ranks' means
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// As ReduceOp.AVG of the losses.
double mean_over_ranks(Replicas& replicas, double mean, std::size_t tokens) {
  std::vector<float> sum{tokens == 0 ? 0.0f : static_cast<float>(mean)};
  replicas.all_reduce(sum);
  return static_cast<double>(sum[0]) / replicas.ranks();
}
