// barrier: 4 ranks: rank 0 leaves, although no message has told it, directly or through others, that rank 1 has entered
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Once around: of who stands farther away a rank hears nothing.
void barrier(Link& link) {
  const int n = link.ranks(), rank = link.rank();
  if (n == 1) return;
  const std::array<float, 1> sent{};
  std::array<float, 1> received{};
  link.exchange((rank + 1) % n, sent, (rank + n - 1) % n, received);
}
