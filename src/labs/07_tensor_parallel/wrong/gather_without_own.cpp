// sequence_all_gather: was not written
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

using cohort::lab::Link;

void sequence_all_gather(Link& link, std::span<const float> own, std::span<float> all) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return all.subspan(static_cast<std::size_t>((r + n) % n) * own.size(), own.size()); };
  for (int step = 0; step < n - 1; ++step)
    link.exchange((rank + 1) % n, step == 0 ? own : part(rank - step), (rank + n - 1) % n, part(rank - step - 1));
}
