// `cohort bench layouts`: the same model and global batch in several layouts and precisions, measured beside what was planned.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/bench/bench.hpp"
#include "commands/bench/model_options.hpp"
#include "commands/bench/random_batches.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "config/run_file.hpp"
#include "plan/memory.hpp"
#include "plan/profile.hpp"
#include "plan/step_time.hpp"
#include "runtime/runtime.hpp"
#include "tensor/memory_account.hpp"
#include "train/precision.hpp"
#include "train/proof.hpp"

namespace cohort {
namespace {

struct BenchLayoutsOptions {
  RunConfig config;
  std::vector<std::string> layouts{"data=bucketed", "data=zero1", "data=zero2", "data=zero3"};
  std::vector<std::string> precisions{"fp32", "bf16", "fp16"};
  std::string profile;
  Count steps = 10;
  Count warm_up = 2;
  bool json = false;
};

struct MeasuredLayout {
  std::string name, precision;
  Bytes planned_memory = 0, memory = 0;   // of the rank that needs most
  double seconds = 0.0;                   // of a step, the median
  std::optional<double> planned_seconds;  // with a profile
  double tokens = 0.0;                    // of a step

  double tokens_per_second() const { return tokens / seconds; }
};

// The whole batch of one step, for any layout of it.
RunConfig config_of(const BenchLayoutsOptions& options, const std::string& precision, int ranks) {
  RunConfig config = options.config;
  TrainSection& train = config.train;
  train.global_batch = train.micro_batch * ranks * std::max<Count>(1, train.accumulation);
  train.accumulation = 0;
  apply_override(config, "precision.policy=" + precision);
  config.data.tokens = "random";  // no file is read
  return reference_config(config);
}

MeasuredLayout measure_layout(const Layout& layout, const BenchLayoutsOptions& options, Communicator& world) {
  const RunConfig& config = layout.config;
  MeasuredLayout measured;
  measured.name = layout.name;
  measured.precision = config.precision.policy;
  measured.tokens = static_cast<double>(config.train.global_batch * config.model.context);
  reset_memory_peaks();
  const Mesh mesh(world, mesh_shape_of(config.parallel), device_of(config), config.device.share);
  TrainStep train_step(config, mesh);
  if (train_step.device() == DeviceKind::cpu) train_step.reserve(count_step(config, mesh.index(Axis::pp)).arenas);
  const RandomBatches batches(config, BatchShare::of(mesh, train_step.ring() ? &train_step.ring()->split() : nullptr));
  StepTimers timers;
  std::vector<double> seconds;
  for (Count step = 0; step < options.warm_up + options.steps; ++step) {
    timers.begin_step();
    train_step.run(batches.step(step), timers);
    const double slowest = all_reduce_value(world, timers.step_seconds(), ReduceOp::max);
    if (step >= options.warm_up) seconds.push_back(slowest);
  }
  std::nth_element(seconds.begin(), seconds.begin() + options.steps / 2, seconds.end());
  measured.seconds = seconds[static_cast<std::size_t>(options.steps / 2)];
  Bytes own = 0;
  for (const Bytes bytes : kinds_of_memory(train_step.device()).kinds.values) own += bytes;
  measured.memory = all_reduce_value(world, own, ReduceOp::max);
  return measured;
}

void add_plan(MeasuredLayout& measured, const RunConfig& config, const std::optional<MachineProfile>& profile) {
  const std::vector<CountedStep> stages = count_stages(config);
  measured.planned_memory = predict_memory(stages).total;
  const bool covered = profile && profile->covers(storage_of(config).compute, exec_of(config).tf32);
  if (covered) measured.planned_seconds = predict_step_time(config, stages, *profile, profile->ranks_per_node).seconds;
}

std::string off(double planned, double measured) { return fmt::format("{:+.1f} %", 100.0 * (planned / measured - 1.0)); }

void print_table(const std::vector<MeasuredLayout>& all, const BenchLayoutsOptions& options, const Runtime& runtime) {
  const bool times = !options.profile.empty();
  std::vector<std::string> header{"layout", "precision", "memory planned", "measured", "off", "tokens/s", "step ms"};
  if (times) header.insert(header.end(), {"planned ms", "off"});
  Table table(header);
  for (const MeasuredLayout& one : all) {
    std::vector<std::string> row{one.name,
                                 one.precision,
                                 human_bytes(one.planned_memory),
                                 human_bytes(one.memory),
                                 off(static_cast<double>(one.planned_memory), static_cast<double>(one.memory)),
                                 fmt::format("{:.0f}", one.tokens_per_second()),
                                 fmt::format("{:.1f}", 1e3 * one.seconds)};
    if (one.planned_seconds) {
      row.push_back(fmt::format("{:.1f}", 1e3 * *one.planned_seconds));
      row.push_back(off(*one.planned_seconds, one.seconds));
    } else if (times) {
      row.insert(row.end(), {"-", "-"});
    }
    table.add(row);
  }
  fmt::print("{} on {}, {}; medians of {} of {:.0f} tokens\n{}", counted(runtime.size(), "rank"),
             counted(runtime.node_count(), "node"), runtime.device(), counted(options.steps, "step"), all.front().tokens,
             table.str(2));
  fmt::print("memory: of the rank that needs the most, by all tensors of a step; step: of the slowest rank.\n");
  if (times && std::any_of(all.begin(), all.end(), [](const MeasuredLayout& one) { return !one.planned_seconds; }))
    fmt::print("-: the profile has no measurements of this precision (cohort bench calibration --precision).\n");
  if (device_of(options.config) == DeviceKind::cpu)
    fmt::print("On CPUs 16-bit types save memory, not time: products convert their operands to fp32 first.\n");
}

nlohmann::ordered_json to_json(const std::vector<MeasuredLayout>& all) {
  auto json = nlohmann::ordered_json::array();
  for (const MeasuredLayout& one : all) {
    json.push_back({{"layout", one.name},
                    {"precision", one.precision},
                    {"memory_planned", one.planned_memory},
                    {"memory_measured", one.memory},
                    {"tokens_per_second", one.tokens_per_second()},
                    {"step_seconds", one.seconds},
                    {"step_seconds_planned", one.planned_seconds ? nlohmann::ordered_json(*one.planned_seconds) : nullptr}});
  }
  return json;
}

int bench_layouts(const BenchLayoutsOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  std::optional<MachineProfile> profile;
  std::vector<Layout> layouts;
  fail_together(*world, "looking at the layouts", [&] {  // all, before the first is measured
    if (!options.profile.empty()) profile = read_profile(options.profile);
    for (const std::string& precision : options.precisions) {
      const RunConfig config = config_of(options, precision, world->size());
      for (const std::string& words : options.layouts) layouts.push_back(layout_from_words(config, words, world->size()));
    }
  });
  set_up_job(runtime, *world, layouts.front().config);
  std::vector<MeasuredLayout> all;
  for (const Layout& layout : layouts) {
    all.push_back(measure_layout(layout, options, *world));
    if (world->rank() == 0) add_plan(all.back(), layout.config, profile);
  }
  if (world->rank() != 0) return 0;
  if (options.json) {
    fmt::print("{}\n", to_json(all).dump(1));
  } else {
    print_table(all, options, runtime);
  }
  return 0;
}

}  // namespace

void add_bench_layouts(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("layouts", "Compare layouts and precisions: memory and step time, measured and planned");
  command->footer(
      "All layouts train the same global batch of random tokens: --micro-batch samples on each rank.\n"
      "\n"
      "Examples:\n"
      "  mpirun -np 4 cohort bench layouts                            data parallelism against ZeRO, in three precisions\n"
      "  mpirun -np 2 cohort bench layouts --precision fp32 --layout tp=2 --layout pp=2 --layout data=zero3\n"
      "  srun --mpi=pmix cohort bench layouts --device cuda --shape gpt2-124m --micro-batch 16");
  const auto options = std::make_shared<BenchLayoutsOptions>();
  ModelSection& model = options->config.model;
  model.layers = 4;
  model.width = 128;
  model.heads = 4;
  model.context = 128;
  model.vocabulary = 1024;
  options->config.train.micro_batch = 8;
  add_model_options(*command, options->config);
  command
      ->add_option("--layout", options->layouts,
                   "Keys of [parallel], \"dp=2,data=zero1\" (may be repeated) [dp over all ranks: bucketed, zero1, zero2, zero3]")
      ->allow_extra_args(false)
      ->default_str("");
  command->add_option("--precision", options->precisions, "Precisions, separated by commas [fp32,bf16,fp16]")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}))
      ->default_str("");
  command->add_option("--profile", options->profile, "A profile of `cohort bench calibration`: step times are planned, too")
      ->type_name("FILE");
  command->add_option("--steps", options->steps, "Steps to time for each")->check(integer_from(1))->capture_default_str();
  command->add_option("--warm-up", options->warm_up, "Untimed steps before them")->check(integer_from(1))->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return bench_layouts(*options); }; });
}

}  // namespace cohort
