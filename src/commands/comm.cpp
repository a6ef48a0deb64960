// `cohort comm`: how fast this job's ranks can add up their gradients. Measures MPI's all-reduce and the three of the course, or
// with --device cuda NCCL's collectives between GPUs, by message size, as latency and bus bandwidth.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/benchmark.hpp"
#include "comm/device_benchmark.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/nccl_settings.hpp"
#include "comm/nccl_version.hpp"
#include "commands/commands.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/open_world.hpp"
#include "gpu/device.hpp"
#include "parallel/strategy.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

struct CommOptions {
  std::string device = "cpu";
  std::string min = "4";
  std::string max;                      // empty: by device
  std::vector<std::string> algorithms;  // empty: all
  int repeats = 0;
  bool json = false;
  std::string with;  // a learner's folder
};

AllReduceBenchmark benchmark_of(const CommOptions& options) {
  AllReduceBenchmark benchmark;
  benchmark.min_bytes = parse_bytes(options.min);
  if (!options.max.empty()) benchmark.max_bytes = parse_bytes(options.max);
  if (!options.algorithms.empty()) benchmark.algorithms.clear();
  for (const std::string& name : options.algorithms) benchmark.algorithms.push_back(all_reduce_algorithm_from_name(name));
  benchmark.repeats = options.repeats;
  check(benchmark);
  return benchmark;
}

DeviceBenchmark device_benchmark_of(const CommOptions& options) {
  if (!options.with.empty()) fail(ExitCode::usage, "--with measures an all-reduce in the memory of hosts, not between GPUs");
  if (!options.algorithms.empty()) {
    fail(ExitCode::usage, "--algorithms chooses among all-reduces on CPUs; --device cuda measures NCCL's own collectives");
  }
  DeviceBenchmark benchmark;
  benchmark.min_bytes = parse_bytes(options.min);
  if (!options.max.empty()) benchmark.max_bytes = parse_bytes(options.max);
  benchmark.repeats = options.repeats;
  check(benchmark);
  return benchmark;
}

// Fixed widths, so that a line can be printed as soon as it is measured.
constexpr int kSizeWidth = 10;
constexpr int kColumnWidth = 12;

/// A column pair for each name: the table's two lines of titles.
void print_titles(const std::vector<std::string_view>& columns) {
  std::string names = fmt::format("{:>{}}", "", kSizeWidth);
  std::string units = fmt::format("{:>{}}", "message", kSizeWidth);
  for (const std::string_view column : columns) {
    names += fmt::format("{:>{}}{:>{}}", column, kColumnWidth, "", kColumnWidth);
    units += fmt::format("{:>{}}{:>{}}", "time us", kColumnWidth, "bus GB/s", kColumnWidth);
  }
  fmt::print("{}\n{}\n", names.erase(names.find_last_not_of(' ') + 1), units);
}

void print_header(const AllReduceBenchmark& benchmark, const Runtime& runtime) {
  fmt::print("All-reduce (sum, fp32) over {} on {}. Median over repeats, each as slow as its slowest rank.\n",
             counted(runtime.size(), "rank"), counted(runtime.node_count(), "node"));
  fmt::print(
      "Bus bandwidth = 2 (n-1)/n x bytes / time: the least that each rank must send; independent of n on an ideal network.\n\n");
  std::vector<std::string_view> columns;
  for (const AllReduceAlgorithm algorithm : benchmark.algorithms) columns.push_back(name_of(algorithm));
  print_titles(columns);
}

void print_device_header(const Runtime& runtime) {
  fmt::print("NCCL {} (sum, fp32) between {} of {}, {} on rank 0. Median over repeats, each as slow as its slowest rank.\n",
             nccl_version_text(nccl_version()), counted(runtime.size(), "GPU"), counted(runtime.node_count(), "node"),
             gpu::facts().name);
  for (const NcclSetting& setting : nccl_settings()) fmt::print("{}\n", describe(setting));
  fmt::print("Bus bandwidth = 2 (n-1)/n x bytes / time for the all-reduce, (n-1)/n x bytes / time for the others.\n\n");
  std::vector<std::string_view> columns;
  for (const DeviceCollective collective : kDeviceCollectives) columns.push_back(name_of(collective));
  print_titles(columns);
}

/// `Timing` is AllReduceTiming or DeviceTiming.
template <class Timing>
void print_row(const std::vector<Timing>& timings, int ranks) {
  std::string line = fmt::format("{:>{}}", human_bytes(timings.front().bytes), kSizeWidth);
  for (const Timing& timing : timings) {
    const std::string bandwidth = ranks == 1 ? "-" : fmt::format("{:#.3g}", timing.bus_bytes_per_second / 1e9);
    line += fmt::format("{:>{}.1f}{:>{}}", timing.seconds * 1e6, kColumnWidth, bandwidth, kColumnWidth);
  }
  fmt::print("{}\n", line);
  flush_console();  // through mpirun's pipe too
}

template <class Timing>
nlohmann::ordered_json json_of(const char* key, std::string_view name, const Timing& timing) {
  return {{key, name},
          {"bytes", timing.bytes},
          {"repeats", timing.repeats},
          {"latency_us", timing.seconds * 1e6},
          {"bus_gb_per_s", timing.bus_bytes_per_second / 1e9}};
}

// A learner's all-reduce is measured behind the others. // Collective over: world
void add_own(Communicator& world, const CommOptions& options, AllReduceBenchmark& benchmark) {
  if (options.with.empty()) return;
  use_learners_code(world, options.with);
  if (!own_all_reduce()) throw SharedError(ExitCode::usage, fmt::format("--with {}: there is no all-reduce in it", options.with));
  benchmark.own = own_all_reduce();
  benchmark.algorithms.push_back(AllReduceAlgorithm::own);
}

int measure(const CommOptions& options) {
  AllReduceBenchmark benchmark = benchmark_of(options);  // before anything is started
  const Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  add_own(*world, options, benchmark);
  const bool table = runtime.rank() == 0 && !options.json;
  if (table) {
    for (const std::string& warning : runtime.warnings()) fmt::print("warning: {}\n", warning);
    print_header(benchmark, runtime);
  }
  nlohmann::ordered_json timings_json = nlohmann::ordered_json::array();
  run_benchmark(*world, benchmark, [&](const std::vector<AllReduceTiming>& timings) {
    if (table) print_row(timings, world->size());
    for (const AllReduceTiming& timing : timings) {
      timings_json.push_back(json_of("algorithm", name_of(timing.algorithm), timing));
    }
  });
  if (runtime.rank() == 0 && options.json) {
    const nlohmann::ordered_json report{{"operation", "all_reduce"},
                                        {"dtype", "fp32"},
                                        {"world_size", runtime.size()},
                                        {"node_count", runtime.node_count()},
                                        {"bus_bandwidth", "2 (n-1)/n x bytes / time"},
                                        {"timings", std::move(timings_json)},
                                        {"warnings", runtime.warnings()}};
    fmt::print("{}\n", report.dump(2));
  }
  return 0;
}

int measure_devices(const CommOptions& options) {
  const DeviceBenchmark benchmark = device_benchmark_of(options);  // before anything is started
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  runtime.open_device(DeviceKind::gpu);
  nlohmann::ordered_json timings_json = nlohmann::ordered_json::array();
  {
    const std::unique_ptr<Communicator> devices = make_nccl_communicator(*world, "world");
    const bool table = runtime.rank() == 0 && !options.json;
    if (table) {
      for (const std::string& warning : runtime.warnings()) fmt::print("warning: {}\n", warning);
      print_device_header(runtime);
    }
    run_device_benchmark(*devices, *world, benchmark, [&](const std::vector<DeviceTiming>& timings) {
      if (table) print_row(timings, world->size());
      for (const DeviceTiming& timing : timings) {
        timings_json.push_back(json_of("operation", name_of(timing.collective), timing));
      }
    });
  }
  if (runtime.rank() == 0 && options.json) {
    const nlohmann::ordered_json report{
        {"dtype", "fp32"},
        {"device", gpu::facts().name},
        {"world_size", runtime.size()},
        {"node_count", runtime.node_count()},
        {"bus_bandwidth", "all_reduce: 2 (n-1)/n x bytes / time; reduce_scatter, all_gather: (n-1)/n x bytes / time"},
        {"timings", std::move(timings_json)},
        {"warnings", runtime.warnings()}};
    fmt::print("{}\n", report.dump(2));
  }
  return 0;
}

}  // namespace

void add_comm_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "comm", "Measure all-reduce by message size: MPI's and the naive, tree and ring of the course, or NCCL's between GPUs");
  command->footer(
      "Examples:\n"
      "  mpirun -np 4 cohort comm                                   all sizes and algorithms, in about 20 s\n"
      "  mpirun -np 4 cohort comm --min 1KiB --max 1MiB --algorithms tree,ring\n"
      "                                                             where does the ring overtake the tree?\n"
      "  mpirun -np 2 cohort comm --device cuda --min 1MiB          what the links between two GPUs carry\n"
      "  mpirun -np 4 cohort comm --max 1MiB --with labs/03_collectives\n"
      "                                                             your own all-reduce of lab 3 beside them\n"
      "  srun --mpi=pmix cohort comm --json > all_reduce.json       for a plot");
  const auto options = std::make_shared<CommOptions>();
  command->add_option("--device", options->device, "cpu: MPI, in host memory; cuda: NCCL, between one GPU per rank")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--min", options->min, "Smallest message: bytes, or with KiB, MiB, GiB")->capture_default_str();
  command->add_option("--max", options->max, "Largest message; sizes grow by a factor of 4 in between [64MiB, on GPUs 256MiB]");
  command->add_option("--algorithms", options->algorithms, "All-reduce algorithms, separated by commas [mpi,naive,tree,ring]")
      ->delimiter(',');
  command->add_option("--repeats", options->repeats, "Repeats per size; 0: as many as fit into a fifth of a second, from 3 to 20")
      ->capture_default_str();
  add_with_option(*command, options->with);
  command->add_flag("--json", options->json, "Print JSON")->excludes("--with");
  command->callback([&action, options] {
    action = [options] { return options->device == "cuda" ? measure_devices(*options) : measure(*options); };
  });
}

}  // namespace cohort
