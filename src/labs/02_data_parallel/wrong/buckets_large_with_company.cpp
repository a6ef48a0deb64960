// assign_buckets: has a bucket of its own
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// What is larger than the limit empties the count of its bucket, and the next joins it.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  int bucket = 0;
  std::size_t held = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t most = bucket == 0 ? first_limit : limit;
    if (i > 0 && held + bytes[i] > most) ++bucket, held = 0;
    held += bytes[i] > (bucket == 0 ? first_limit : limit) ? 0 : bytes[i];
    buckets[i] = bucket;
  }
}
