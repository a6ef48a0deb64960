// place_of_rank: that is its global rank
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

// Takes the rank of the world for that of the node.
Place place_of_rank(std::span<const int> ranks_on_node, Distribution distribution, int rank) {
  if (distribution == Distribution::block) {
    int node = 0, first = 0;
    while (rank >= first + ranks_on_node[static_cast<std::size_t>(node)])
      first += ranks_on_node[static_cast<std::size_t>(node++)];
    return {node, rank};
  }
  const int nodes = static_cast<int>(ranks_on_node.size());
  for (int next = 0, round = 0;; ++round) {
    for (int node = 0; node < nodes; ++node) {
      if (ranks_on_node[static_cast<std::size_t>(node)] > round && next++ == rank) return {node, round};
    }
  }
}
