// `cohort preflight`: are the nodes of this job fit for it? Measures them, compares them with each other, and names the bad one.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/commands.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/version.hpp"
#include "preflight/assess.hpp"
#include "preflight/measure_nodes.hpp"
#include "preflight/measurements_json.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

using preflight::Check;
using preflight::Level;
using preflight::Measurements;

struct PreflightOptions {
  std::string disk = ".";
  bool quick = false;
  bool json = false;
};

// Settings may be long, and versions of MPI are a paragraph.
constexpr std::size_t kMostCharacters = 60;

std::string shortened(const std::string& text) {
  return text.size() <= kMostCharacters ? text : text.substr(0, kMostCharacters - 3) + "...";
}

void print_table(const Runtime& runtime, const std::vector<Check>& checks) {
  fmt::print("{} on {}\n\n", counted(runtime.size(), "rank"), counted(runtime.node_count(), "node"));
  Table table({"", "check", "found", "limit"});
  for (const Check& check : checks) table.add({name_of(check.level()), check.name, shortened(check.value), check.limit});
  fmt::print("{}", table.str(4));
  for (const Level level : {Level::fail, Level::warn}) {
    for (const std::string& line : problems_of(checks, level)) fmt::print("\n{}: {}\n", name_of(level), line);
  }
  flush_console();
}

nlohmann::ordered_json report_of(const Measurements& measurements, const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    nlohmann::ordered_json problems = nlohmann::ordered_json::array();
    for (const preflight::Problem& problem : check.problems) {
      problems.push_back({{"level", name_of(problem.level)}, {"text", problem.text}});
    }
    list.push_back({{"name", check.name},
                    {"level", name_of(check.level())},
                    {"value", check.value},
                    {"limit", check.limit},
                    {"problems", std::move(problems)}});
  }
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const preflight::Node& node : measurements.nodes) nodes.push_back(to_json(node));
  return {{"ranks", measurements.ranks},
          {"cuda", measurements.cuda},
          {"checks", std::move(list)},
          {"nodes", std::move(nodes)},
          {"nccl_bus_bytes_per_s", measurements.nccl}};
}

int check_job(const PreflightOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  const Measurements measurements =
      preflight::measure(runtime, *world, {options.disk, options.quick, cohort_version() + " " + git_revision()});
  std::string failures;
  if (world->rank() == 0) {
    const std::vector<Check> checks = assess(measurements);
    if (options.json) {
      fmt::print("{}\n", report_of(measurements, checks).dump(2));
      flush_console();
    } else {
      for (const std::string& warning : runtime.warnings()) fmt::print("warning: {}\n", warning);
      print_table(runtime, checks);
    }
    failures = join(problems_of(checks, Level::fail), "\n  ");
  }
  failures = broadcast_text(*world, failures, 0);
  if (failures.empty()) return 0;
  throw SharedError(ExitCode::launch, fmt::format("this job's nodes failed the checks:\n  {}", failures));
}

}  // namespace

void add_preflight_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("preflight", "Check the nodes of a job before the real work: healthy, and alike?");
  command->footer(
      "Run it with the same launcher, nodes and ranks as the job that follows. It takes some seconds (disk and network take the\n"
      "longest), and ends with exit code 4 if a check failed, so that a job script can stop there:\n"
      "  srun --mpi=pmix cohort preflight --disk $SCRATCH || exit\n"
      "\n"
      "Checked on each node: versions of Cohort, MPI, NVIDIA's driver, CUDA and NCCL; settings of MPI and NCCL; active\n"
      "InfiniBand ports; cores and ranks; memory, /dev/shm and limits (ulimit -n, -l); clock; disk; MPI messages within the\n"
      "node and between nodes. Of GPUs: that all are visible and reach each other; the speed of their memory and of each\n"
      "link; temperature, clock and memory errors; an all-reduce of NCCL over all of them.\n"
      "\n"
      "A training job is as fast as its slowest node, so each is compared with the median of the others. A node that\n"
      "stands out is named:\n"
      "  FAIL: GPU to host: node3 GPU 0000:1B:00.0: 3.1 GB/s where the others have 25 GB/s (median)\n"
      "Figures that are bad on any machine give warnings too. `ok` for a single node says little: there is no other to compare.\n"
      "\n"
      "Examples:\n"
      "  mpirun -np 4 cohort preflight --quick          this machine, in two seconds\n"
      "  srun --mpi=pmix cohort preflight --json        all measurements, for a log or a plot");
  const auto options = std::make_shared<PreflightOptions>();
  command->add_option("--disk", options->disk, "Folder on the disk that the job will write to; a scratch file is created there")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_flag("--quick", options->quick, "Smaller files and messages, fewer pairs of nodes");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return check_job(*options); }; });
}

}  // namespace cohort
