// place_ranks: plane=3, nodes for 4, 4, 4 ranks: rank 10 is put on node 0, not 1
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <span>
#include <string>
#include <vector>

using cohort::lab::Link;

// Takes for granted that all nodes have as many ranks as the first.
void place_ranks(std::span<const int> tasks_on_node, RankDistribution distribution, int plane, std::span<RankPlace> places) {
  const int nodes = static_cast<int>(tasks_on_node.size());
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
    const int per_node = std::max(1, tasks_on_node[0]);
    RankPlace& place = places[static_cast<std::size_t>(rank)];
    if (distribution == block_distribution) place = {rank / per_node, rank % per_node};
    if (distribution == cyclic_distribution) place = {rank % nodes, rank / nodes};
    if (distribution == plane_distribution) {
      const int turn = rank / plane;
      place = {turn % nodes, turn / nodes * plane + rank % plane};
      if (plane >= per_node) place = {rank / per_node, rank % per_node};
    }
  }
}
