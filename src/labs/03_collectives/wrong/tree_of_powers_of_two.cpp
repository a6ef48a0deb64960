// tree_all_reduce: 3 ranks and 8 elements: rank 2 wants to receive from rank 3
#include <cmath>
#include <cohort/lab03_collectives.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;

// Takes for granted that each rank has a partner.
void tree_all_reduce(Link& link, std::span<float> data) {
  const int rank = link.rank(), n = link.ranks();
  std::vector<float> received(data.size());
  int distance = 1;
  for (; distance < n; distance *= 2) {
    if (rank % (2 * distance) != 0) {
      link.send(rank - distance, data);
      link.receive(rank - distance, data);
      break;
    }
    link.receive(rank + distance, received);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += received[i];
  }
  for (distance /= 2; distance > 0; distance /= 2) link.send(rank + distance, data);
}
