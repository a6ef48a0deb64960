// place_ranks: plane=2, nodes for 2, 2 ranks: rank 1 is put on node 1, not 0
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <span>
#include <string>
#include <vector>

using cohort::lab::Link;

// Knows block and cyclic alone.
void place_ranks(std::span<const int> tasks_on_node, RankDistribution distribution, int plane, std::span<RankPlace> places) {
  const int most = distribution == cyclic_distribution ? 1 : plane;
  std::vector<int> taken(tasks_on_node.size(), 0);
  std::size_t rank = 0;
  while (rank < places.size()) {
    for (std::size_t node = 0; node < taken.size(); ++node) {
      const int room = tasks_on_node[node] - taken[node];
      const int takes = distribution == block_distribution ? room : std::min(room, most > 1 ? 1 : most);
      for (int i = 0; i < takes; ++i) {
        places[rank] = {.node = static_cast<int>(node), .local_rank = taken[node]};
        ++taken[node];
        ++rank;
      }
    }
  }
}
