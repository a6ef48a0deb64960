// place_of_rank: takes all nodes for as large as the first
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

// Right on nodes that are all alike.
Place place_of_rank(std::span<const int> ranks_on_node, Distribution distribution, int rank) {
  const int nodes = static_cast<int>(ranks_on_node.size());
  const int each = std::max(ranks_on_node[0], 1);
  if (distribution == Distribution::block) return {rank / each, rank % each};
  for (int next = 0, round = 0;; ++round) {
    for (int node = 0; node < nodes; ++node) {
      if (ranks_on_node[static_cast<std::size_t>(node)] > round && next++ == rank) return {node, round};
    }
  }
}
