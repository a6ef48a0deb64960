// place_of_rank: that is the other distribution
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

// Looks at no distribution.
Place place_of_rank(std::span<const int> ranks_on_node, Distribution distribution, int rank) {
  (void)distribution;
  int node = 0, first = 0;
  while (rank >= first + ranks_on_node[static_cast<std::size_t>(node)]) first += ranks_on_node[static_cast<std::size_t>(node++)];
  return {node, rank - first};
}
