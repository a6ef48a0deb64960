// ring_all_reduce: all ranks wait for each other, for ever: rank 0 waits to send to rank 1; rank 1 waits to send to rank 0
#include <cmath>
#include <cohort/lab03_collectives.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

// All send first, and nobody receives.
void ring_all_reduce(Link& link, std::span<float> data) {
  const int n = link.ranks(), rank = link.rank();
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  const auto block = [&](int b) {
    const auto place = static_cast<std::size_t>((b % n + n) % n), parts = static_cast<std::size_t>(n);
    return data.subspan(place * data.size() / parts, (place + 1) * data.size() / parts - place * data.size() / parts);
  };
  std::vector<float> received(data.size() / static_cast<std::size_t>(n) + 1);
  for (int step = 0; step < n - 1; ++step) {
    const std::span<float> into = block(rank - step - 1);
    const std::span<float> came = std::span(received).first(into.size());
    link.send(next, block(rank - step));
    link.receive(before, came);
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += came[i];
  }
  for (int step = 0; step < n - 1; ++step) {
    const std::span<float> into = block(rank - step);
    const std::span<float> came = std::span(received).first(into.size());
    link.exchange(next, block(rank + 1 - step), before, came);
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = came[i];
  }
}
