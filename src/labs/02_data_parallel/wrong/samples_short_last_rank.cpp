// samples_of_rank: or the last ones wait for each other
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// The ranks beyond the rest get a sample less.
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine) {
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed * 1000003 + epoch);
  std::shuffle(order.begin(), order.end(), random);
  std::size_t i = 0;
  for (std::size_t p = static_cast<std::size_t>(rank); p < samples; p += static_cast<std::size_t>(ranks)) mine[i++] = order[p];
}
