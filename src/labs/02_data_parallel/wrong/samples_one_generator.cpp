// samples_of_rank: gives another order
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// A generator that goes on from call to call.
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine) {
  static std::mt19937_64 random(seed + epoch);
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = order[(i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)) % samples];
}
