// place_ranks: rank 2 is on node 1, where it is local rank 0, not 2
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <span>
#include <string>
#include <vector>

using cohort::lab::Link;

// The global rank, used as the number of a GPU.
void place_ranks(std::span<const int> tasks_on_node, RankDistribution distribution, int plane, std::span<RankPlace> places) {
  const int most = distribution == cyclic_distribution ? 1 : plane;
  std::vector<int> taken(tasks_on_node.size(), 0);
  std::size_t rank = 0;
  while (rank < places.size()) {
    for (std::size_t node = 0; node < taken.size(); ++node) {
      const int room = tasks_on_node[node] - taken[node];
      const int takes = distribution == block_distribution ? room : std::min(room, most);
      for (int i = 0; i < takes; ++i) {
        places[rank] = {.node = static_cast<int>(node), .local_rank = static_cast<int>(rank)};
        ++taken[node];
        ++rank;
      }
    }
  }
}
