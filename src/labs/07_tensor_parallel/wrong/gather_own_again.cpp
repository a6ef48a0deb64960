// sequence_all_gather: it is to be element
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

using cohort::lab::Link;

// Sends its own part in every step, not what came last.
void sequence_all_gather(Link& link, std::span<const float> own, std::span<float> all) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return all.subspan(static_cast<std::size_t>((r + n) % n) * own.size(), own.size()); };
  std::copy(own.begin(), own.end(), part(rank).begin());
  for (int step = 0; step < n - 1; ++step) link.exchange((rank + 1) % n, part(rank), (rank + n - 1) % n, part(rank - step - 1));
}
