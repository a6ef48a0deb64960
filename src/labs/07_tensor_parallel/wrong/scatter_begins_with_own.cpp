// sequence_reduce_scatter: it is to be that of element
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

// Begins with its own part: it ends on the rank before.
void sequence_reduce_scatter(Link& link, std::span<const float> partial, std::span<float> own) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return partial.subspan(static_cast<std::size_t>((r + 2 * n) % n) * own.size(), own.size()); };
  std::vector<float> sum(part(rank).begin(), part(rank).end()), received(own.size());
  for (int step = 0; step < n - 1; ++step) {
    link.exchange((rank + 1) % n, sum, (rank + n - 1) % n, received);
    const std::span<const float> mine = part(rank - step - 1);
    for (std::size_t i = 0; i < own.size(); ++i) sum[i] = received[i] + mine[i];
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}
