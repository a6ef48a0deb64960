// ranks_of_node: Not as many as there are nodes
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

// Multiplies by the wrong one of two numbers.
bool ranks_of_node(int nodes, int node, std::span<int> ranks) {
  if (node < 0 || node >= nodes) return false;
  std::iota(ranks.begin(), ranks.end(), node * nodes);
  return true;
}
