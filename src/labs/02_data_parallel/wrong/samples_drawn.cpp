// samples_of_rank: an epoch has each sample once
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// Draws each sample anew, so that some come twice.
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine) {
  std::mt19937_64 random(seed * 1000003 + epoch);
  std::vector<std::size_t> order(samples);
  for (std::size_t& sample : order) sample = random() % samples;
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = order[(i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)) % samples];
}
