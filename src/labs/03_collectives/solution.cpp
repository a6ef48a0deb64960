// Lab 3: one way to write it.
#include <algorithm>
#include <cmath>
#include <cohort/lab03_collectives.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

namespace {

void add(std::span<float> sum, std::span<const float> other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

}  // namespace

// 3.1
void naive_all_reduce(Link& link, std::span<float> data) {
  if (link.rank() != 0) {
    link.send(0, data);
    link.receive(0, data);
    return;
  }
  std::vector<float> received(data.size());
  for (int r = 1; r < link.ranks(); ++r) {
    link.receive(r, received);
    add(data, received);
  }
  for (int r = 1; r < link.ranks(); ++r) link.send(r, data);
}

// 3.2
void tree_all_reduce(Link& link, std::span<float> data) {
  const int rank = link.rank(), n = link.ranks();
  std::vector<float> received(data.size());
  int distance = 1;
  for (; distance < n; distance *= 2) {
    if (rank % (2 * distance) != 0) {  // hands its sum on, and gets the whole one back from there
      link.send(rank - distance, data);
      link.receive(rank - distance, data);
      break;
    }
    if (rank + distance >= n) continue;  // no partner in this round
    link.receive(rank + distance, received);
    add(data, received);
  }
  for (distance /= 2; distance > 0; distance /= 2) {
    if (rank + distance < n) link.send(rank + distance, data);
  }
}

// 3.3
void ring_all_reduce(Link& link, std::span<float> data) {
  const int n = link.ranks(), rank = link.rank();
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  const auto block = [&](int b) {  // of any b, counted around the ring
    const auto place = static_cast<std::size_t>((b % n + n) % n), parts = static_cast<std::size_t>(n);
    const std::size_t begin = place * data.size() / parts, end = (place + 1) * data.size() / parts;
    return data.subspan(begin, end - begin);
  };
  std::vector<float> received(data.size() / static_cast<std::size_t>(n) + 1);
  for (int step = 0; step < n - 1; ++step) {
    const std::span<float> into = block(rank - step - 1);
    const std::span<float> came = std::span(received).first(into.size());
    link.exchange(next, block(rank - step), before, came);
    add(into, came);
  }
  for (int step = 0; step < n - 1; ++step) link.exchange(next, block(rank + 1 - step), before, block(rank - step));
}

// 3.4
AllReduceSeconds predict_all_reduce(int ranks, double bytes, double latency, double bandwidth) {
  const double message = latency + bytes / bandwidth;
  const double others = ranks - 1;
  return {.naive = 2.0 * others * message,
          .tree = 2.0 * std::ceil(std::log2(ranks)) * message,
          .ring = 2.0 * others * (latency + bytes / ranks / bandwidth)};
}
