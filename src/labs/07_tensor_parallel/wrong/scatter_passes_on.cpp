// sequence_reduce_scatter: is missing
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

// Passes on what came without adding its own.
void sequence_reduce_scatter(Link& link, std::span<const float> partial, std::span<float> own) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return partial.subspan(static_cast<std::size_t>((r + 2 * n) % n) * own.size(), own.size()); };
  std::vector<float> sum(part(rank - 1).begin(), part(rank - 1).end()), received(own.size());
  for (int step = 0; step < n - 1; ++step) {
    link.exchange((rank + 1) % n, sum, (rank + n - 1) % n, received);
    for (std::size_t i = 0; i < own.size(); ++i) sum[i] = received[i];
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}
