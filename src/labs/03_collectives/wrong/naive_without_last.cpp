// naive_all_reduce: rank 1 waits to send to rank 0, which has returned
#include <cmath>
#include <cohort/lab03_collectives.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

// One rank too few.
void naive_all_reduce(Link& link, std::span<float> data) {
  if (link.rank() != 0) {
    link.send(0, data);
    return link.receive(0, data);
  }
  std::vector<float> received(data.size());
  for (int r = 1; r < link.ranks() - 1; ++r) {
    link.receive(r, received);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += received[i];
  }
  for (int r = 1; r < link.ranks() - 1; ++r) link.send(r, data);
}
