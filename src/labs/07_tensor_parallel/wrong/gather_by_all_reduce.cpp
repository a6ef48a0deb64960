// sequence_all_gather: of 3 elements are enough
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

using cohort::lab::all_reduce_sum;
using cohort::lab::Link;

// An all-reduce of parts among zeros: right, and twice the messages.
void sequence_all_gather(Link& link, std::span<const float> own, std::span<float> all) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return all.subspan(static_cast<std::size_t>((r + n) % n) * own.size(), own.size()); };
  std::fill(all.begin(), all.end(), 0.0f);
  std::copy(own.begin(), own.end(), part(rank).begin());
  all_reduce_sum(link, all);
}
