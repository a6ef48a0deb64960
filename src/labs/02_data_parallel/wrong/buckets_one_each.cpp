// assign_buckets: had room for its
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// A bucket for each gradient: hooks without buckets.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  (void)bytes, (void)first_limit, (void)limit;
  std::iota(buckets.begin(), buckets.end(), 0);
}
