// `cohort bench calibration`: a profile of this machine, which `cohort plan` reads.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "comm/nccl_communicator.hpp"
#include "commands/bench/bench.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "gpu/device.hpp"
#include "observe/clock.hpp"
#include "ops/gemm.hpp"
#include "plan/calibrate.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

struct CalibrationOptions {
  std::string file;
  std::string device = "cpu";
  std::vector<std::string> precisions;
  Count threads = 1;
  Count repeats = 5;
  bool overwrite = false;
};

std::vector<CalibratedType> types_of(const CalibrationOptions& options) {
  std::vector<std::string> names = options.precisions;
  if (names.empty())
    names = options.device == "cuda" ? std::vector<std::string>{"bf16", "tf32"} : std::vector<std::string>{"fp32"};
  std::vector<CalibratedType> types;
  for (const std::string& name : names)
    types.push_back({name == "tf32" ? DType::f32 : name == "fp8" ? DType::u8 : dtype_from_name(name), name == "tf32"});
  return types;
}

bool has_fp8(const std::vector<CalibratedType>& types) {
  return std::any_of(types.begin(), types.end(), [](const CalibratedType& type) { return type.dtype == DType::u8; });
}

// The size of the device, or of a rank's share of the host.
Bytes memory_of_rank(DeviceKind device) { return device == DeviceKind::gpu ? gpu::memory().free : 0; }

void describe_machine(MachineProfile& profile, const Runtime& runtime, const CalibrationOptions& options) {
  const bool gpu = profile.device == DeviceKind::gpu;
  profile.name = gpu ? gpu::facts().name : fmt::format("{} of CPUs", counted(runtime.size(), "rank"));
  profile.memory = memory_of_rank(profile.device);
  profile.host_memory = machine_memory().available;
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  profile.basis = fmt::format("measured on {:04d}-{:02d}-{:02d} with {} on {}{}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                              counted(runtime.size(), "rank"), counted(runtime.node_count(), "node"),
                              gpu ? "" : fmt::format(", {} each, {}", counted(options.threads, "thread"), ops::gemm_backend()));
}

void print_profile(const MachineProfile& profile, const std::string& file, double seconds) {
  Table table({"", "measured"});
  const auto best = [&](OpKind kind, double OpSample::*size) {
    double most = 0.0;
    for (const OpSample& one : profile.ops) {
      if (one.kind == kind) most = std::max(most, one.*size / one.seconds);
    }
    return most;
  };
  table.add({"matrix products", fmt::format("{:.4g} GFLOP/s a rank", 1e-9 * best(OpKind::product, &OpSample::flops))});
  table.add({"attention", fmt::format("{:.4g} GFLOP/s a rank", 1e-9 * best(OpKind::attention, &OpSample::flops))});
  const auto copies = std::max_element(profile.ops.begin(), profile.ops.end(), [](const OpSample& a, const OpSample& b) {
    return (a.op == "copy" ? a.bytes : 0.0) < (b.op == "copy" ? b.bytes : 0.0);
  });
  table.add({"memory", fmt::format("{:.4g} GB/s a rank, copying {}", 1e-9 * copies->bytes / copies->seconds,
                                   human_bytes(static_cast<Bytes>(copies->bytes / 2.0)))});
  const auto link = [&](const char* name, const LinkRates& rates) {
    if (rates.bytes_per_second > 0.0)
      table.add({name, fmt::format("{:.3g} us a hop, {:.3g} GB/s a rank", 1e6 * rates.hop, 1e-9 * rates.bytes_per_second)});
  };
  link("links inside a node", profile.node);
  link("links between nodes", profile.network);
  if (!profile.collectives.empty())
    table.add({"hidden by work beside it", fmt::format("{:.0f} % of a collective", 100.0 * profile.hidden)});
  fmt::print("{}{} in {}, {}, in {:.0f} s\nPlan with it: cohort plan run.toml --profile {}\n", table.str(1), profile.basis, file,
             counted(static_cast<Count>(profile.ops.size() + profile.collectives.size()), "sample"), seconds, file);
}

int bench_calibration(const CalibrationOptions& options) {
  const double begin = steady_seconds();
  const DeviceKind device = options.device == "cuda" ? DeviceKind::gpu : DeviceKind::cpu;
  const std::vector<CalibratedType> types = types_of(options);
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  if (device == DeviceKind::cpu && has_fp8(types))
    throw SharedError(ExitCode::usage, "--precision fp8: products in 8 bits are for GPUs, and --device is cpu");
  std::filesystem::path file;
  fail_together(*world, "looking at where the profile goes", [&] {
    if (world->rank() == 0) file = output_file("FILE", options.file, options.overwrite);
  });
  if (world->size() % runtime.node_count() != 0)
    throw SharedError(ExitCode::usage, fmt::format("{} on {}: start as many on each", counted(world->size(), "rank"),
                                                   counted(runtime.node_count(), "node")));
  runtime.open_device(device);
  if (has_fp8(types)) check_gpus_have_fp8(*world, "--precision fp8", "leave it out");
  if (device == DeviceKind::cpu) ops::set_gemm_threads(static_cast<int>(options.threads));
  std::unique_ptr<Communicator> between_gpus;
  if (device == DeviceKind::gpu && world->size() > 1) between_gpus = make_nccl_communicator(*world, "world");
  const auto progress = [&](const std::string& what) {
    if (world->rank() != 0) return;
    fmt::print("measuring {}\n", what);
    flush_console();
  };
  MachineProfile profile = calibrate({.device = device,
                                      .types = types,
                                      .world = *world,
                                      .tensors = between_gpus ? *between_gpus : *world,
                                      .nodes = runtime.node_count(),
                                      .rows_of_calls = static_cast<int>(options.repeats),
                                      .progress = progress});
  fail_together(*world, "writing the profile", [&] {
    if (world->rank() != 0) return;
    describe_machine(profile, runtime, options);
    write_file_atomically(file, to_json(profile));
    print_profile(profile, options.file, steady_seconds() - begin);
  });
  return 0;
}

}  // namespace

void add_bench_calibration(CLI::App& bench, Action& action) {
  auto* command =
      bench.add_subcommand("calibration", "Measure ops and links for the planner: a profile for `cohort plan --profile`");
  command->footer(
      "Start it as the runs will be started: as many ranks on each node, with as many threads.\n"
      "\n"
      "Examples:\n"
      "  mpirun -np 2 cohort bench calibration machine.json           in about a minute\n"
      "  srun --mpi=pmix cohort bench calibration gpus.json --device cuda   a rank for each GPU");
  const auto options = std::make_shared<CalibrationOptions>();
  command->add_option("FILE", options->file, "Where to write the profile (JSON)")->required();
  command->add_option("--device", options->device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  command
      ->add_option("--precision", options->precisions,
                   "Types to measure, separated by commas; fp8 goes beside bf16 [cpu: fp32; cuda: bf16,tf32]")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "fp8"}));
  command->add_option("--threads", options->threads, "cpu: threads per rank")->check(integer_from(1))->capture_default_str();
  command
      ->add_option("--repeats", options->repeats,
                   "Each op's time is the median of so many rows of calls: fewer are quicker, but too rough to plan by")
      ->check(integer_from(1, 1000))
      ->capture_default_str();
  add_overwrite_option(*command, options->overwrite, "FILE");
  command->callback([&action, options] { action = [options] { return bench_calibration(*options); }; });
}

}  // namespace cohort
