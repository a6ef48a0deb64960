// place_of_rank: and some are full
#include <algorithm>
#include <array>
#include <cohort/lab00_setup.hpp>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

using cohort::lab::Distribution;
using cohort::lab::Identity;
using cohort::lab::Place;
using cohort::lab::Variable;

// Deals out ranks to nodes that have no room.
Place place_of_rank(std::span<const int> ranks_on_node, Distribution distribution, int rank) {
  const int nodes = static_cast<int>(ranks_on_node.size());
  if (distribution == Distribution::block) {
    int node = 0, first = 0;
    while (rank >= first + ranks_on_node[static_cast<std::size_t>(node)])
      first += ranks_on_node[static_cast<std::size_t>(node++)];
    return {node, rank - first};
  }
  return {rank % nodes, rank / nodes};
}
