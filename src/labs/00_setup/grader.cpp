// Lab 0: arithmetic of ranks and nodes is right if it agrees with a list in which each rank was put into its place.
#include <algorithm>
#include <cohort/lab00_setup.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab00_setup {
namespace {

using lab::Distribution;
using lab::Identity;
using lab::Place;
using lab::Variable;

using RanksOfNode = bool(int, int, std::span<int>);

void check_node(RanksOfNode* ranks_of_node, int nodes, int each, int node) {
  constexpr int kUntouched = -7;
  constexpr std::size_t kBeside = 8;
  std::vector<int> memory(static_cast<std::size_t>(each) + 2 * kBeside, kUntouched);
  const std::span<int> ranks = std::span(memory).subspan(kBeside, static_cast<std::size_t>(each));
  const bool found = ranks_of_node(nodes, node, ranks);
  const bool exists = node >= 0 && node < nodes;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool inside = i >= kBeside && i < kBeside + ranks.size();
    if (memory[i] != kUntouched && !(inside && exists))
      reject("{}", inside ? "there is no such node, and yet something is written" : "something is written beside `ranks`");
  }
  if (found != exists)
    reject("node {} {} in a job of {}, whose nodes are 0 to {}: it returns {}", node, exists ? "is" : "is not",
           counted(nodes, "node"), nodes - 1, found);
  if (!exists) return;
  for (int i = 0; i < each; ++i) {
    const int rank = ranks[static_cast<std::size_t>(i)], wanted = node * each + i;
    if (rank == wanted) continue;
    const char* why = rank == kUntouched         ? ": it is left as it was"
                      : rank == node + i * nodes ? ": that deals out ranks to the nodes in turn; a block of ranks fills a node"
                      : rank == wanted - each    ? ": that is a rank of the node before; nodes are counted from 0"
                      : rank == wanted + 1       ? ": ranks are counted from 0"
                      : rank == node * nodes + i ? ": how many ranks are on the nodes before it? Not as many as there are nodes"
                                                 : "";
    reject("ranks[{}] is {}, and should be {}{}", i, rank, wanted, why);
  }
}

void grade_ranks_of_node(const Library& library, Grading& grading) {
  auto* ranks_of_node = library.function<RanksOfNode>("ranks_of_node");
  for (const auto& [nodes, each] : std::vector<std::pair<int, int>>{{4, 2}, {1, 1}, {2, 8}, {3, 5}, {128, 8}, {2, 0}}) {
    for (const int node : {0, nodes - 1, nodes / 2, nodes, nodes + 3, -1}) {
      grading.begin(fmt::format("{} of {}, node {}", counted(nodes, "node"), counted(each, "rank"), node));
      check_node(ranks_of_node, nodes, each, node);
    }
  }
}

// Where every rank is, found by filling the nodes.
std::vector<Place> places(const std::vector<int>& ranks_on_node, Distribution distribution) {
  std::vector<Place> places;
  if (distribution == Distribution::block) {
    for (std::size_t node = 0; node < ranks_on_node.size(); ++node) {
      for (int local = 0; local < ranks_on_node[node]; ++local) places.push_back({static_cast<int>(node), local});
    }
    return places;
  }
  const int most = *std::max_element(ranks_on_node.begin(), ranks_on_node.end());
  for (int local = 0; local < most; ++local) {
    for (std::size_t node = 0; node < ranks_on_node.size(); ++node) {
      if (local < ranks_on_node[node]) places.push_back({static_cast<int>(node), local});
    }
  }
  return places;
}

bool same(const Place& a, const Place& b) { return a.node == b.node && a.local_rank == b.local_rank; }

// What a wrong place is by.
std::string known_mistake(const Place& found, const Place& wanted, int rank, const std::vector<int>& ranks_on_node,
                          Distribution distribution) {
  const Distribution other = distribution == Distribution::block ? Distribution::cyclic : Distribution::block;
  const int nodes = static_cast<int>(ranks_on_node.size());
  const int each = std::max(ranks_on_node.front(), 1);
  if (found.node == wanted.node) return found.local_rank == rank ? ": that is its global rank" : "";
  if (same(found, places(ranks_on_node, other)[static_cast<std::size_t>(rank)])) return ": that is the other distribution";
  if (distribution == Distribution::block && found.node == rank / each) return ": that takes all nodes for as large as the first";
  if (distribution == Distribution::cyclic && found.node == rank % nodes)
    return ": that deals out a rank to each node in every round, and some are full";
  return "";
}

void grade_place_of_rank(const Library& library, Grading& grading) {
  auto* place_of_rank = library.function<Place(std::span<const int>, Distribution, int)>("place_of_rank");
  const std::vector<std::vector<int>> jobs{{2, 2}, {4}, {2, 2, 1}, {1, 4}, {3, 1, 2}, {2, 0, 3}, {0, 2}, {8, 8, 8, 8, 4}};
  for (const Distribution distribution : {Distribution::block, Distribution::cyclic}) {
    for (const std::vector<int>& job : jobs) {
      std::vector<std::string> words;
      for (const int ranks : job) words.push_back(std::to_string(ranks));
      grading.begin(fmt::format("nodes of {} ranks, {}", join(words), distribution == Distribution::block ? "block" : "cyclic"));
      const std::vector<Place> expected = places(job, distribution);
      for (int rank = 0; rank < static_cast<int>(expected.size()); ++rank) {
        const Place found = place_of_rank(job, distribution, rank), wanted = expected[static_cast<std::size_t>(rank)];
        if (same(found, wanted)) continue;
        reject("rank {} is said to be local rank {} of node {}, and is local rank {} of node {}{}", rank, found.local_rank,
               found.node, wanted.local_rank, wanted.node, known_mistake(found, wanted, rank, job, distribution));
      }
    }
  }
}

// An environment in which a launcher has started rank 5 of 8 on node 2 of 4, as its second of two ranks.
std::map<std::string, std::string> open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "5"},
          {"OMPI_COMM_WORLD_SIZE", "8"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},
          {"OMPI_UNIVERSE_SIZE", "16"},
          {"PATH", "/usr/bin"}};
}
std::map<std::string, std::string> slurm() {
  return {{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"},
          {"SLURM_JOB_ID", "77"}, {"SLURM_NNODES", "4"}, {"HOME", "/root"},      {"SLURM_NTASKS_PER_NODE", "2"}};
}
// mpirun in a job of SLURM: on each node one task of srun is mpirun's daemon, and the ranks inherit its variables.
std::map<std::string, std::string> mpirun_in_slurm() {
  std::map<std::string, std::string> both = open_mpi();
  both.merge(slurm());
  both["SLURM_PROCID"] = "2";
  both["SLURM_NTASKS"] = "4";
  both["SLURM_LOCALID"] = "0";
  return both;
}

using RankFromEnvironment = const char*(std::span<const Variable>, Identity&);

struct Answer {
  std::string missing;
  Identity identity;
};

constexpr int kUnset = -5;

Answer ask(RankFromEnvironment* rank_from_environment, const std::map<std::string, std::string>& environment) {
  std::vector<Variable> variables;
  for (const auto& [name, value] : environment) variables.push_back({name, value});
  Answer answer{"", {kUnset, kUnset, kUnset, kUnset}};
  const char* const missing = rank_from_environment(variables, answer.identity);
  if (missing == nullptr) reject("it returns a null pointer: an empty text says that nothing is missing");
  answer.missing = missing;
  return answer;
}

void check_number(const char* what, int found, int wanted, const char* hint = "") {
  if (found != wanted)
    reject("the {} is {}, and should be {}{}", what, found == kUnset ? "not set" : std::to_string(found), wanted, hint);
}

void check_found(const Answer& answer, int node, const char* node_hint, const char* rank_hint = "") {
  if (!answer.missing.empty()) reject("it returns {}, although all four variables are there and whole numbers", answer.missing);
  check_number("rank", answer.identity.rank, 5, rank_hint);
  check_number("world size", answer.identity.world_size, 8,
               answer.identity.world_size == 16 ? ": OMPI_UNIVERSE_SIZE is what could run here" : "");
  check_number("local rank", answer.identity.local_rank, 1);
  check_number("node", answer.identity.node, node, answer.identity.node == 1 ? node_hint : "");
}

void check_missing(const Answer& answer, const std::string& variable, const std::string& state) {
  if (answer.missing != variable)
    reject("{} {}: it returns {}", variable, state, answer.missing.empty() ? "nothing, as if all were well" : answer.missing);
  const Identity& identity = answer.identity;
  if (identity.rank != kUnset || identity.world_size != kUnset || identity.local_rank != kUnset || identity.node != kUnset)
    reject("{} {}, and yet something of `identity` is set", variable, state);
}

void grade_environment(const Library& library, Grading& grading) {
  auto* from = library.function<RankFromEnvironment>("rank_from_environment");
  constexpr const char* kNodeRank = ": OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the node";
  grading.begin("what mpirun sets");
  check_found(ask(from, open_mpi()), 2, kNodeRank);
  grading.begin("what srun sets");
  check_found(ask(from, slurm()), 2, "");
  grading.begin("mpirun in a job of SLURM");
  check_found(ask(from, mpirun_in_slurm()), 2, kNodeRank,
              ": srun's variables speak of the daemon that mpirun has started on the node, not of this process");
  const std::vector<std::vector<std::string>> launchers{
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"}};
  for (std::size_t launcher = 0; launcher < launchers.size(); ++launcher) {
    for (const std::string& name : launchers[launcher]) {
      for (const char* value : {"(unset)", "", "3x", "-1", "2.5", " 1", "99999999999"}) {
        std::map<std::string, std::string> environment = launcher == 0 ? open_mpi() : slurm();
        environment[name] = value;
        const bool unset = std::string_view(value) == "(unset)";
        if (unset) environment.erase(name);
        grading.begin(unset ? fmt::format("{} is not set", name) : fmt::format("{}='{}'", name, value));
        check_missing(ask(from, environment), name, unset ? "is not set" : "is no whole number");
      }
    }
  }
  grading.begin("a size of 0");
  std::map<std::string, std::string> nobody = open_mpi();
  nobody["OMPI_COMM_WORLD_LOCAL_SIZE"] = "0";
  check_missing(ask(from, nobody), "OMPI_COMM_WORLD_LOCAL_SIZE", "is 0");
  grading.begin("no launcher");
  check_missing(ask(from, {{"PATH", "/usr/bin"}}), "SLURM_PROCID", "is not set, nor is anything of Open MPI");
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 0,
      .folder = "00_setup",
      .title = "Set-up and launcher",
      .minutes = 60,
      .exercises = {{.name = "ranks_of_node", .task = "which global ranks are yours?", .grade = grade_ranks_of_node},
                    {.name = "place_of_rank", .task = "where is a rank, on nodes that differ?", .grade = grade_place_of_rank},
                    {.name = "rank_from_environment", .task = "what a launcher says of a process", .grade = grade_environment}},
      .questions = {{"q1", [] { return 3.0 * 8.0; }, 0.0},
                    {"q2", [] { return 8.0 + 8.0 + 3.0; }, 0.0},
                    {"q3", [] { return 37.0 - 4.0 * 8.0; }, 0.0},
                    {"q4", [] { return 64.0 * 63.0 / 2.0; }, 0.0}}};
  return kLab;
}

}  // namespace cohort::labs::lab00_setup
