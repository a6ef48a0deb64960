// Lab 2: from one rank to data parallel. What each function has to do is in <cohort/lab02_data_parallel.hpp>.
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// 2.1
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine) {
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(epoch),
                      static_cast<std::uint32_t>(epoch >> 32)};
  std::mt19937_64 random(words);
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::size_t position = i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank);
    mine[i] = order[position % samples];
  }
}

namespace {

// A gradient times a weight. Without weight it is nothing, also where it is no number.
float share(float gradient, double weight) { return weight == 0.0 ? 0.0f : static_cast<float>(gradient * weight); }

}  // namespace

// 2.2
void average_gradients(std::span<float> first, std::size_t first_tokens, std::span<float> second, std::size_t second_tokens) {
  const auto all = static_cast<double>(first_tokens + second_tokens);
  const double first_weight = static_cast<double>(first_tokens) / all, second_weight = static_cast<double>(second_tokens) / all;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const float mean = share(first[i], first_weight) + share(second[i], second_weight);
    first[i] = mean;
    second[i] = mean;
  }
}

// 2.3
double mean_over_ranks(Replicas& replicas, double mean, std::size_t tokens) {
  const double sum = tokens == 0 ? 0.0 : mean * static_cast<double>(tokens);
  std::vector<float> sums{static_cast<float>(sum), static_cast<float>(tokens)};
  replicas.all_reduce(sums);
  return static_cast<double>(sums[0]) / sums[1];
}

// 2.4
void naive_data_parallel(Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens) {
  std::vector<float> all{static_cast<float>(tokens)};
  replicas.all_reduce(all);
  const double weight = static_cast<double>(tokens) / all[0];
  for (const std::span<float> gradient : gradients) {
    for (float& element : gradient) element = share(element, weight);
    replicas.all_reduce(gradient);
  }
}

// 2.5
void on_gradient_ready(Replicas& replicas, std::span<float> gradient, bool last_micro_batch, std::vector<int>& requests) {
  if (last_micro_batch) requests.push_back(replicas.begin_all_reduce(gradient));
}

void before_optimizer(Replicas& replicas, std::vector<int>& requests) {
  for (const int request : requests) replicas.wait(request);
  requests.clear();
}

// 2.6
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  int bucket = 0;
  std::size_t held = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0 && held + bytes[i] > (bucket == 0 ? first_limit : limit)) {
      ++bucket;
      held = 0;
    }
    held += bytes[i];
    buckets[i] = bucket;
  }
}
