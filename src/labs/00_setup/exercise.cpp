// Lab 0: who am I? What each function has to do is in <cohort/lab00_setup.hpp>.
//
//   cohort lab show 0        the handout        cohort lab check 0       are they right?
//   cohort lab hint 0.1      a hint             cohort lab ask 0         the questions
#include <cohort/lab00_setup.hpp>
#include <span>
#include <string_view>

using cohort::lab::Distribution;
using cohort::lab::Identity;
using cohort::lab::not_written;
using cohort::lab::Place;
using cohort::lab::Variable;

// 0.1
bool ranks_of_node(int nodes, int node, std::span<int> ranks) {
  (void)nodes, (void)node, (void)ranks;
  not_written();
}

// 0.2
Place place_of_rank(std::span<const int> ranks_on_node, Distribution distribution, int rank) {
  (void)ranks_on_node, (void)distribution, (void)rank;
  not_written();
}

// 0.3
const char* rank_from_environment(std::span<const Variable> environment, Identity& identity) {
  (void)environment, (void)identity;
  not_written();
}
