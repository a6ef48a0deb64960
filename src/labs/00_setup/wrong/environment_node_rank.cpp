// rank_from_environment: OMPI_COMM_WORLD_NODE_RANK is a rank on the node
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

// Takes a variable by its name.
namespace {

std::string_view value_of(std::span<const Variable> environment, std::string_view name) {
  for (const Variable& variable : environment) {
    if (variable.name == name) return variable.value;
  }
  return "";
}

bool whole(std::string_view text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

int number(std::string_view text) { return std::atoi(std::string(text).c_str()); }

constexpr std::array<const char*, 4> kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                              "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr std::array<const char*, 4> kSlurm{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"};

}  // namespace

const char* rank_from_environment(std::span<const Variable> environment, Identity& identity) {
  const bool sel = !value_of(environment, "OMPI_COMM_WORLD_RANK").empty();
  const auto& names = sel ? kOpenMpi : kSlurm;
  std::array<int, 4> numbers{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view text = value_of(environment, names[i]);
    if (!whole(text)) return names[i];
    numbers[i] = number(text);
  }
  identity = {numbers[0], numbers[1], numbers[2], sel ? number(value_of(environment, "OMPI_COMM_WORLD_NODE_RANK")) : numbers[3]};
  return "";
}
