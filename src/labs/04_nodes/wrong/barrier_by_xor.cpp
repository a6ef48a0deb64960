// barrier: wants to send to rank 3: of 3 ranks
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Partners of a hypercube: there are none for every rank if n is no power of two.
void barrier(Link& link) {
  const std::array<float, 1> sent{};
  std::array<float, 1> received{};
  for (int distance = 1; distance < link.ranks(); distance *= 2)
    link.exchange(link.rank() ^ distance, sent, link.rank() ^ distance, received);
}
