// samples_of_rank: do all ranks cut the same order
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// Each rank shuffles by a seed of its own.
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine) {
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed + epoch + static_cast<std::uint64_t>(rank));
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = order[(i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)) % samples];
}
