// reduce_scatter: all ranks wait for each other
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>
#include <vector>

using cohort::lab::Link;

namespace {

std::span<float> block(Link& link, std::span<float> data, int b) {
  const int n = link.ranks();
  const std::size_t length = data.size() / static_cast<std::size_t>(n);
  return data.subspan(static_cast<std::size_t>((b % n + n) % n) * length, length);
}

}  // namespace

// All send first, and nobody receives.
void reduce_scatter(Link& link, std::span<float> data) {
  const int n = link.ranks(), next = (link.rank() + 1) % n, before = (link.rank() + n - 1) % n;
  std::vector<float> received(data.size() / static_cast<std::size_t>(n));
  for (int step = 1; step < n; ++step) {
    link.send(next, block(link, data, link.rank() - step));
    link.receive(before, received);
    const std::span<float> sum = block(link, data, link.rank() - step - 1);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += received[i];
  }
}
