// gradient_hooks: nobody has waited for the sum
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// The optimizer steps with what is there.
void on_gradient_ready(Replicas& replicas, std::span<float> gradient, bool last_micro_batch, std::vector<int>& requests) {
  if (last_micro_batch) requests.push_back(replicas.begin_all_reduce(gradient));
}

void before_optimizer(Replicas& replicas, std::vector<int>& requests) {
  (void)replicas;
  requests.clear();
}
