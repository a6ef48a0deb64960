// barrier: 3 ranks: rank 0 leaves
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Rounds of a power of two: log2 rounded down.
void barrier(Link& link) {
  const int n = link.ranks(), rank = link.rank();
  const std::array<float, 1> sent{};
  std::array<float, 1> received{};
  for (int distance = 1; 2 * distance <= n; distance *= 2)
    link.exchange((rank + distance) % n, sent, (rank + n - distance) % n, received);
}
