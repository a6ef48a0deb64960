// ranks_of_node: nodes are counted from 0
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

// Counts nodes from 1.
bool ranks_of_node(int nodes, int node, std::span<int> ranks) {
  if (node < 0 || node >= nodes) return false;
  std::iota(ranks.begin(), ranks.end(), (node - 1) * static_cast<int>(ranks.size()));
  return true;
}
