// ranks_of_node: that deals out ranks to the nodes in turn
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

// Cyclic, not block.
bool ranks_of_node(int nodes, int node, std::span<int> ranks) {
  if (node < 0 || node >= nodes) return false;
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = node + static_cast<int>(i) * nodes;
  return true;
}
