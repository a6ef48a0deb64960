// tree_all_reduce: messages wait for each other
#include <cmath>
#include <cohort/lab03_collectives.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

// Right, but a chain: each rank waits for the one behind it.
void tree_all_reduce(Link& link, std::span<float> data) {
  const int rank = link.rank(), last = link.ranks() - 1;
  std::vector<float> received(data.size());
  if (rank < last) {
    link.receive(rank + 1, received);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += received[i];
  }
  if (rank > 0) {
    link.send(rank - 1, data);
    link.receive(rank - 1, data);
  }
  if (rank < last) link.send(rank + 1, data);
}
