// sequence_all_gather: all ranks wait for each other, for ever
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

using cohort::lab::Link;

void sequence_all_gather(Link& link, std::span<const float> own, std::span<float> all) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return all.subspan(static_cast<std::size_t>((r + n) % n) * own.size(), own.size()); };
  std::copy(own.begin(), own.end(), part(rank).begin());
  for (int step = 0; step < n - 1; ++step) {
    link.send((rank + 1) % n, part(rank - step));
    link.receive((rank + n - 1) % n, part(rank - step - 1));
  }
}
