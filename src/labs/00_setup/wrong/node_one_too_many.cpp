// ranks_of_node: node 4 is not in a job of 4 nodes
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

// Four nodes are 0 to 3.
bool ranks_of_node(int nodes, int node, std::span<int> ranks) {
  if (node < 0 || node > nodes) return false;
  if (node < nodes) std::iota(ranks.begin(), ranks.end(), node * static_cast<int>(ranks.size()));
  return true;
}
