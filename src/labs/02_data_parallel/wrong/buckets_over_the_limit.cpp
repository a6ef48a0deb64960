// assign_buckets: what no longer fits begins the next bucket
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// Closed as soon as it is full, and so over the limit by a part of a gradient.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  int bucket = 0;
  std::size_t held = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (held >= (bucket == 0 ? first_limit : limit)) ++bucket, held = 0;
    held += bytes[i];
    buckets[i] = bucket;
  }
}
