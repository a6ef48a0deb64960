// Lab 0: who am I? What each function has to do is in <cohort/lab00_setup.hpp>.
#include <algorithm>
#include <array>
#include <cohort/lab00_setup.hpp>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

using cohort::lab::Distribution;
using cohort::lab::Identity;
using cohort::lab::Place;
using cohort::lab::Variable;

// 0.1
bool ranks_of_node(int nodes, int node, std::span<int> ranks) {
  if (node < 0 || node >= nodes) return false;
  std::iota(ranks.begin(), ranks.end(), node * static_cast<int>(ranks.size()));
  return true;
}

// 0.2
Place place_of_rank(std::span<const int> ranks_on_node, Distribution distribution, int rank) {
  const int nodes = static_cast<int>(ranks_on_node.size());
  if (distribution == Distribution::block) {
    int node = 0, first = 0;
    while (rank >= first + ranks_on_node[static_cast<std::size_t>(node)])
      first += ranks_on_node[static_cast<std::size_t>(node++)];
    return {node, rank - first};
  }
  // In round k a node gets its k-th rank, if it has room for one.
  for (int next = 0, round = 0;; ++round) {
    for (int node = 0; node < nodes; ++node) {
      if (ranks_on_node[static_cast<std::size_t>(node)] > round && next++ == rank) return {node, round};
    }
  }
}

namespace {

// Of what a launcher says.
constexpr std::array<const char*, 4> kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                              "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr std::array<const char*, 4> kSlurm{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"};

std::string_view value_of(std::span<const Variable> environment, std::string_view name) {
  for (const Variable& variable : environment) {
    if (variable.name == name) return variable.value;
  }
  return "";
}

// -1 if it is not a whole number.
int number(std::string_view text) {
  if (text.empty() || text.size() > 9) return -1;
  int number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return -1;
    number = 10 * number + (digit - '0');
  }
  return number;
}

}  // namespace

// 0.3
const char* rank_from_environment(std::span<const Variable> environment, Identity& identity) {
  const auto is_open_mpi = [](const Variable& variable) { return variable.name == kOpenMpi[0]; };
  const bool open_mpi = std::any_of(environment.begin(), environment.end(), is_open_mpi);
  const auto& names = open_mpi ? kOpenMpi : kSlurm;
  std::array<int, 4> numbers{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    numbers[i] = number(value_of(environment, names[i]));
    const bool size = i == 1 || (open_mpi && i == 3);
    if (numbers[i] < (size ? 1 : 0)) return names[i];
  }
  identity = {.rank = numbers[0],
              .world_size = numbers[1],
              .local_rank = numbers[2],
              .node = open_mpi ? numbers[0] / numbers[3] : numbers[3]};
  return "";
}
