// assign_buckets: would wait for it while backward goes on
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// Small gradients into gaps that are left in earlier buckets.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  std::vector<std::size_t> held;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::size_t bucket = 0;
    while (bucket < held.size() && held[bucket] + bytes[i] > (bucket == 0 ? first_limit : limit)) ++bucket;
    if (bucket == held.size()) held.push_back(0);
    held[bucket] += bytes[i];
    buckets[i] = static_cast<int>(bucket);
  }
}
