// `cohort bench step`: how fast this machine trains, as a share of what its matrix products can reach.
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/bench/bench.hpp"
#include "commands/bench/model_options.hpp"
#include "commands/bench/product_peak.hpp"
#include "commands/bench/random_batches.hpp"
#include "commands/bench/watch_cost.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/override_options.hpp"
#include "gpu/device.hpp"
#include "gpu/gpu_sampler.hpp"
#include "mesh/mesh.hpp"
#include "observe/clock.hpp"
#include "ops/gemm.hpp"
#include "runtime/runtime.hpp"
#include "telemetry/device_peaks.hpp"
#include "train/precision.hpp"
#include "train/train_step.hpp"

namespace cohort {
namespace {

struct BenchOptions {
  RunConfig config;
  std::vector<std::string> overrides;
  Count steps = 20;
  Count warm_up = 5;
  bool json = false;
  std::string with;
};

// What the rate of a step is compared with.
struct Peak {
  double gflops;  // of one rank
  std::string what;
};

// GPUs are compared with the dense bf16 rate of their data sheets, the convention of model FLOP utilisation (MFU), whatever the
// type of the run. 0 for a GPU that is not listed.
Peak peak_of_gpu() {
  const std::string& name = gpu::facts().name;
  return {1e-9 * datasheet_flops(name, "bf16").value_or(0.0), fmt::format("data sheet, dense bf16, {}", name)};
}

// Power, temperature and clock of rank 0's GPU while it worked, as means: a reading after the last step would tell of an idle
// card. Null on a CPU, and where nothing was read.
nlohmann::ordered_json figures_of_gpu(const gpu::GpuSummary& during) {
  if (during.samples == 0 || !during.watts || !during.celsius || !during.clock_mhz) return nullptr;
  return {{"samples", during.samples},
          {"watts", during.watts->mean},
          {"celsius", during.celsius->mean},
          {"clock_mhz", during.clock_mhz->mean},
          {"lowest_clock_mhz", during.clock_mhz->min}};
}

Peak measure_peak(DeviceKind device) {
  if (device == DeviceKind::gpu) return peak_of_gpu();
  return {gemm_gflops_of_cpu(), fmt::format("1024^3 products, measured now with {}", ops::gemm_backend())};
}

nlohmann::ordered_json measure(const BenchOptions& options, Communicator& world, const std::string& device, double launched) {
  const RunConfig& config = options.config;
  const Mesh mesh(world, mesh_shape_of(config.parallel), device_of(config), config.device.share);
  TrainStep train_step(config, mesh);
  const RandomBatches batches(config, BatchShare::of(mesh, train_step.ring() ? &train_step.ring()->split() : nullptr));
  const Count tokens = config.train.global_batch * config.model.context;
  StepTimers timers;
  train_step.run(batches.step(0), timers);
  world.barrier();
  const double first_step = steady_seconds() - launched;

  Peak peak = measure_peak(train_step.device());
  for (Count step = 1; step < options.warm_up; ++step) train_step.run(batches.step(step), timers);
  std::optional<gpu::GpuSampler> sampler;
  if (train_step.device() == DeviceKind::gpu) sampler.emplace(gpu::facts().pci_id);
  std::vector<double> seconds, processor;  // of each step: on the slowest rank; of all ranks together
  nlohmann::ordered_json phases;
  std::array<double, kPhases.size()> phase_seconds{};
  const WatchCost watch_cost;
  for (Count step = 0; step < options.steps; ++step) {
    const double used = processor_seconds();
    timers.begin_step();
    train_step.run(batches.step(options.warm_up + step), timers);
    seconds.push_back(all_reduce_value(world, timers.step_seconds(), ReduceOp::max));
    processor.push_back(all_reduce_value(world, processor_seconds() - used, ReduceOp::sum));
    for (Phase phase : kPhases)
      phase_seconds[static_cast<std::size_t>(phase)] += timers.seconds(phase) / static_cast<double>(options.steps);
  }
  const nlohmann::ordered_json gpu_figures = sampler ? figures_of_gpu(sampler->take()) : nlohmann::ordered_json(nullptr);
  const auto watched = watch_cost.measure(world, static_cast<double>(options.steps));
  peak.gflops = all_reduce_value(world, std::max(peak.gflops, measure_peak(train_step.device()).gflops), ReduceOp::sum);
  std::sort(seconds.begin(), seconds.end());
  std::sort(processor.begin(), processor.end());
  const double median = seconds[seconds.size() / 2];
  const double flops = train_step.model().flops_per_token(config.model.context);
  const double gflops = 1e-9 * flops * static_cast<double>(tokens) / median;
  for (Phase phase : {Phase::forward, Phase::backward, Phase::communication, Phase::optimizer, Phase::device}) {
    phases[std::string(name_of(phase))] = phase_seconds[static_cast<std::size_t>(phase)];
  }
  return {{"model", config.model.kind},
          {"parameters", count_parameters(config.model)},
          {"ranks", world.size()},
          {"layout", mesh.shape().str()},
          {"strategy", train_step.strategy().name()},
          {"device", device},
          {"precision", config.precision.policy},
          {"tokens_per_step", tokens},
          {"steps", options.steps},
          {"warm_up_steps", options.warm_up},
          {"step_seconds", median},
          {"step_seconds_best", seconds.front()},
          {"step_processor_seconds", processor[processor.size() / 2]},
          {"tokens_per_second", static_cast<double>(tokens) / median},
          {"flops_per_token", flops},
          {"gflops", gflops},
          {"peak_gflops", peak.gflops},
          {"peak", peak.what},
          {"share_of_peak", peak.gflops > 0.0 ? gflops / peak.gflops : 0.0},
          {"phase_seconds", phases},
          {"activation_bytes", train_step.activations().peak_bytes()},
          {"first_step_seconds", first_step},
          {"watch",
           {{"operations", watched.operations},
            {"operation_seconds", watched.seconds_of_operation},
            {"monitor_share", watched.monitor_share},
            {"share_of_step", watched.share_of(median)}}},
          {"gpu", gpu_figures}};
}

void print_result(const nlohmann::ordered_json& r) {
  const auto number = [&](const char* key) { return r.at(key).get<double>(); };
  Table table({"", ""});
  table.add({"model", fmt::format("{}, {} parameters", r.at("model").get<std::string>(), human_count(number("parameters")))});
  table.add({"device", fmt::format("{}, {}", r.at("device").get<std::string>(), r.at("precision").get<std::string>())});
  table.add({"ranks, strategy", fmt::format("{} ({}), {}", r.at("ranks").get<int>(), r.at("layout").get<std::string>(),
                                            r.at("strategy").get<std::string>())});
  table.add({"step", fmt::format("{:.1f} ms median of {}, best {:.1f} ms", 1e3 * number("step_seconds"),
                                 r.at("steps").get<Count>(), 1e3 * number("step_seconds_best"))});
  table.add({"  processor", fmt::format("{:.1f} ms, all ranks together", 1e3 * number("step_processor_seconds"))});
  for (const auto& [phase, seconds] : r.at("phase_seconds").items()) {
    table.add({"  " + phase, fmt::format("{:.1f} ms", 1e3 * seconds.get<double>())});
  }
  table.add({"tokens/s", fmt::format("{:.0f}", number("tokens_per_second"))});
  table.add({"GFLOP/s",
             fmt::format("{:.1f} (6 N + 12 L C T = {} per token)", number("gflops"), human_count(number("flops_per_token")))});
  table.add({"peak", fmt::format("{:.1f} GFLOP/s over all ranks ({})", number("peak_gflops"), r.at("peak").get<std::string>())});
  table.add({"share of peak", fmt::format("{:.1f} %", 100.0 * number("share_of_peak"))});
  table.add({"activations", human_bytes(r.at("activation_bytes").get<Bytes>())});
  table.add({"first step", fmt::format("{:.2f} s after the command began", number("first_step_seconds"))});
  const auto watched = [&](const char* key) { return r.at("watch").at(key).get<double>(); };
  table.add({"watching", fmt::format("{:.3f} % of a step: {:.0f} operations recorded, {:.0f} ns each; monitor {:.3f} % of a core",
                                     100.0 * watched("share_of_step"), watched("operations"), 1e9 * watched("operation_seconds"),
                                     100.0 * watched("monitor_share"))});
  if (const auto& gpu = r.at("gpu"); !gpu.is_null()) {
    table.add(
        {"GPU", fmt::format("{:.0f} W, {:.0f} C, {:.0f} MHz, lowest {:.0f} (means of {} readings during these steps)",
                            gpu.at("watts").get<double>(), gpu.at("celsius").get<double>(), gpu.at("clock_mhz").get<double>(),
                            gpu.at("lowest_clock_mhz").get<double>(), gpu.at("samples").get<int>())});
  }
  fmt::print("{}", table.str(2));
}

int bench_step(BenchOptions options) {
  const double launched = steady_seconds();
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  settle_bench_config(options.config, options.overrides, world->size());
  runtime.monitor().set_timeout(options.config.watch.timeout);
  use_learners_code(*world, options.with);
  set_up_job(runtime, *world, options.config);
  const nlohmann::ordered_json result = measure(options, *world, runtime.device(), launched);
  if (world->rank() != 0) return 0;
  if (options.json) {
    fmt::print("{}\n", result.dump());
  } else {
    print_result(result);
  }
  return 0;
}

}  // namespace

void add_bench_step(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("step", "Time whole training steps on random tokens");
  command->footer(
      "Examples:\n"
      "  cohort bench step                                     6 layers, width 384, T 256, batch 8\n"
      "  cohort bench step --layers 4 --width 128 --heads 4 --context 64 --micro-batch 12 --steps 50\n"
      "  mpirun -np 2 cohort bench step --strategy bucketed    the same on two ranks\n"
      "  mpirun -np 2 cohort bench step --set parallel.tp=2    the same, with every matrix sharded\n"
      "  cohort bench step --device cuda --precision bf16 --shape gpt2-124m --micro-batch 64 --accumulation 8");
  const auto options = std::make_shared<BenchOptions>();
  RunConfig& c = options->config;
  c.model.layers = 6;
  c.model.width = 384;
  c.model.heads = 6;
  c.model.context = 256;
  c.model.vocabulary = 65;
  c.train.micro_batch = 8;
  add_model_options(*command, c);
  command->add_option("--precision", c.precision.policy, "fp32, tf32, bf16, fp16 or fp8")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "fp8"}))
      ->capture_default_str();
  command->add_option("--strategy", c.parallel.data, "Data-parallel strategy")
      ->check(CLI::IsMember({"monolith", "manual", "naive", "hooks", "bucketed", "zero1", "zero2", "zero3"}))
      ->capture_default_str();
  command->add_option("--set", options->overrides, "Set a run-file key: parallel.tp=2 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->check(is_assignment())
      ->allow_extra_args(false);
  command->add_option("--steps", options->steps, "Steps to time")->check(integer_from(1))->capture_default_str();
  command->add_option("--warm-up", options->warm_up, "Untimed steps before them")->check(integer_from(1))->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  add_with_option(*command, options->with);
  command->callback([&action, options] { action = [options] { return bench_step(*options); }; });
}

}  // namespace cohort
