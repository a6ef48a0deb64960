// `cohort topo`: where the ranks are. Under a launcher, a table of the running job and warnings; with --nodes, --ranks-per-node
// and --node, the ranks of one node of a job that need not exist; without --node, of all its nodes.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/runtime.hpp"
#include "runtime/topology.hpp"

namespace cohort {
namespace {

struct TopoOptions {
  Count nodes = 0;
  Count ranks_per_node = 0;
  Count node = 0;
  bool simulate = false;
  bool json = false;
  const CLI::Option* nodes_given = nullptr;
  const CLI::Option* ranks_per_node_given = nullptr;
  const CLI::Option* node_given = nullptr;
};

// A node of thousands of ranks is a typing error, or a question whose first line answers it.
constexpr int kMostPlaces = 64;

nlohmann::ordered_json plan_json(const TopoOptions& options, const NodeRanks& ranks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int local = 0; local < ranks.count; ++local) {
    list.push_back({{"rank", ranks.first + local}, {"node_rank", options.node}, {"local_rank", local}});
  }
  return {{"nodes", options.nodes},
          {"ranks_per_node", options.ranks_per_node},
          {"world_size", ranks.world_size},
          {"node", options.node},
          {"ranks", std::move(list)}};
}

void print_plan(const TopoOptions& options, const NodeRanks& ranks) {
  const int last = ranks.first + ranks.count - 1;
  const std::string mine = ranks.count == 1 ? fmt::format("rank {}", last) : fmt::format("ranks {}-{}", ranks.first, last);
  fmt::print("Node {} of {} (counted from 0) runs {} of {}:\n", options.node, options.nodes, mine, ranks.world_size);
  fmt::print("global rank = node x {} + local rank, the block order that srun and mpirun use unless told otherwise.\n\n",
             ranks.count);
  Table table({"rank", "node", "local rank", "SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"});
  for (int local = 0; local < std::min(ranks.count, kMostPlaces); ++local) {
    const std::string rank = std::to_string(ranks.first + local);
    const std::string node = std::to_string(options.node);
    table.add({rank, node, std::to_string(local), rank, node, std::to_string(local)});
  }
  fmt::print("{}", table.str(0));
  if (ranks.count > kMostPlaces) fmt::print("... and {} more\n", ranks.count - kMostPlaces);
  fmt::print("\nThe same on all of them: SLURM_NTASKS={} SLURM_JOB_NUM_NODES={} SLURM_NTASKS_PER_NODE={}\n", ranks.world_size,
             options.nodes, options.ranks_per_node);
  fmt::print(
      "Programs that rendezvous over a socket (torchrun) call these RANK, NODE_RANK, LOCAL_RANK and WORLD_SIZE={}. They also\n"
      "need MASTER_ADDR, the host of rank 0 (scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1), and a free\n"
      "MASTER_PORT there. Cohort needs neither: MPI gets every rank's address from the launcher.\n",
      ranks.world_size);
}

// Every rank of a job that need not exist, as `cohort topo` shows those of a running one.
int simulate(const TopoOptions& options) {
  const int world_size = ranks_of_node(options.nodes, options.ranks_per_node, 0).world_size;
  if (!is_printing_rank()) return 0;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (int rank = 0; rank < world_size; ++rank) {
    const Count node = rank / options.ranks_per_node;
    ranks.push_back({{"rank", rank},
                     {"host", fmt::format("node{}", node + 1)},
                     {"node_rank", node},
                     {"local_rank", rank % options.ranks_per_node}});
  }
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{{"world_size", world_size}, {"node_count", options.nodes}, {"ranks", ranks}}.dump(2));
    return 0;
  }
  fmt::print("{} on {} of a simulated job (nothing is started)\n\n", counted(world_size, "rank"), counted(options.nodes, "node"));
  Table table({"rank", "host", "node", "local rank"});
  for (int rank = 0; rank < std::min(world_size, kMostPlaces); ++rank) {
    const auto& row = ranks[static_cast<std::size_t>(rank)];
    table.add({std::to_string(rank), row["host"].get<std::string>(), row["node_rank"].dump(), row["local_rank"].dump()});
  }
  fmt::print("{}", table.str(4));
  if (world_size > kMostPlaces) fmt::print("... and {} more\n", world_size - kMostPlaces);
  fmt::print("\nTo see what one of these nodes sees, add --node N.\n");
  return 0;
}

int answer_plan(const TopoOptions& options) {
  std::vector<std::string> missing;
  if (options.nodes_given->count() == 0) missing.push_back("--nodes");
  if (options.ranks_per_node_given->count() == 0) missing.push_back("--ranks-per-node");
  if (!missing.empty()) {
    fail(ExitCode::usage,
         "{} missing: --nodes and --ranks-per-node are used together; `cohort topo` without them shows the running job",
         join(missing, " and "));
  }
  if (options.node_given->count() == 0) return simulate(options);
  const NodeRanks ranks = ranks_of_node(options.nodes, options.ranks_per_node, options.node);
  if (!is_printing_rank()) return 0;
  if (options.json) {
    fmt::print("{}\n", plan_json(options, ranks).dump(2));
  } else {
    print_plan(options, ranks);
  }
  return 0;
}

nlohmann::ordered_json job_json(const Runtime& runtime, const std::vector<Place>& places,
                                const std::vector<std::string>& warnings, const std::vector<std::string>& notes) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const Place& place : places) {
    ranks.push_back({{"rank", place.rank},
                     {"host", place.host},
                     {"node_rank", place.node_rank},
                     {"local_rank", place.local_rank},
                     {"cores", place.cores},
                     {"device", place.device}});
  }
  return {{"launcher", name_of(runtime.launcher().launcher)},
          {"job_id", runtime.launcher().job_id},
          {"world_size", runtime.size()},
          {"node_count", runtime.node_count()},
          {"ranks", std::move(ranks)},
          {"warnings", warnings},
          {"notes", notes}};
}

void print_job(const Runtime& runtime, const std::vector<Place>& places) {
  const LauncherFacts& launcher = runtime.launcher();
  const std::string by =
      launcher.launcher == Launcher::none ? "without a launcher" : fmt::format("by {}", name_of(launcher.launcher));
  const std::string job = launcher.job_id.empty() ? "" : fmt::format(", Slurm job {}", launcher.job_id);
  const std::string on = launcher.nodelist.empty() ? "" : fmt::format(" on {}", launcher.nodelist);
  const std::string restarts = launcher.restart_count == 0 ? "" : ", restarted " + counted(launcher.restart_count, "time");
  fmt::print("{} on {}, started {}{}{}{}\n\n", counted(runtime.size(), "rank"), counted(runtime.node_count(), "node"), by, job,
             on, restarts);
  Table table({"rank", "host", "node", "local rank", "cores", "device"});
  for (const Place& place : places) {
    table.add({std::to_string(place.rank), place.host, std::to_string(place.node_rank), std::to_string(place.local_rank),
               fmt::format("{} of {}", cores_text(place.cores), place.online), place.device});
  }
  fmt::print("{}", table.str(6));
}

int show_job(const TopoOptions& options) {
  const Runtime runtime;
  const std::vector<Place> places = gather_places(runtime);
  if (runtime.rank() != 0) return 0;
  const BindingFindings bindings = check_places(places);
  std::vector<std::string> warnings = runtime.warnings();
  warnings.insert(warnings.end(), bindings.warnings.begin(), bindings.warnings.end());
  if (options.json) {
    fmt::print("{}\n", job_json(runtime, places, warnings, bindings.notes).dump(2));
    return 0;
  }
  print_job(runtime, places);
  for (const std::string& warning : warnings) fmt::print("\nwarning: {}\n", warning);
  for (const std::string& note : bindings.notes) fmt::print("\nnote: {}\n", note);
  return 0;
}

}  // namespace

void add_topo_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("topo", "Show where the ranks are: host, node, local rank, cores, device");
  command->footer(
      "Examples:\n"
      "  mpirun -np 4 cohort topo                             the running job, with warnings about its bindings\n"
      "  srun --mpi=pmix cohort topo                          the same on a cluster\n"
      "  cohort topo --simulate --nodes 4 --ranks-per-node 2  a simulated job: nothing is launched\n"
      "  cohort topo --nodes 4 --ranks-per-node 2 --node 3    which ranks are on its node 3?");
  const auto options = std::make_shared<TopoOptions>();
  options->nodes_given = command->add_option("--nodes", options->nodes, "Number of nodes of a simulated job");
  options->ranks_per_node_given =
      command->add_option("--ranks-per-node", options->ranks_per_node, "Ranks on each node of that job");
  options->node_given = command->add_option("--node", options->node, "Node to show, counted from 0");
  command->add_flag("--simulate", options->simulate, "Show a simulated job of the size --nodes x --ranks-per-node");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] {
    action = [options] {
      const bool plan = options->simulate ||
                        options->nodes_given->count() + options->ranks_per_node_given->count() + options->node_given->count() > 0;
      return plan ? answer_plan(*options) : show_job(*options);
    };
  });
}

}  // namespace cohort
