// Lab 2: from one rank to data parallel. What each function has to do is in <cohort/lab02_data_parallel.hpp>.
//
//   cohort lab show 2        the handout        cohort lab check 2       are they right?
//   cohort lab hint 2.1      a hint             cohort lab ask 2         the questions
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using cohort::lab::not_written;
using cohort::lab::Replicas;

// 2.1
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine) {
  (void)samples, (void)seed, (void)epoch, (void)rank, (void)ranks, (void)mine;
  not_written();
}

// 2.2
void average_gradients(std::span<float> first, std::size_t first_tokens, std::span<float> second, std::size_t second_tokens) {
  (void)first, (void)first_tokens, (void)second, (void)second_tokens;
  not_written();
}

// 2.3
double mean_over_ranks(Replicas& replicas, double mean, std::size_t tokens) {
  (void)replicas, (void)mean, (void)tokens;
  not_written();
}

// 2.4
void naive_data_parallel(Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens) {
  (void)replicas, (void)gradients, (void)tokens;
  not_written();
}

// 2.5, gradient_hooks: two functions
void on_gradient_ready(Replicas& replicas, std::span<float> gradient, bool last_micro_batch, std::vector<int>& requests) {
  (void)replicas, (void)gradient, (void)last_micro_batch, (void)requests;
  not_written();
}

void before_optimizer(Replicas& replicas, std::vector<int>& requests) {
  (void)replicas, (void)requests;
  not_written();
}

// 2.6
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  (void)bytes, (void)first_limit, (void)limit, (void)buckets;
  not_written();
}
