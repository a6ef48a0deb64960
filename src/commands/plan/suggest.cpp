// `cohort plan RUN.toml --suggest`, and what it shares with plans for a machine.
#include "plan/suggest.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/plan/run_costs.hpp"
#include "config/run_file.hpp"
#include "gpu/device.hpp"
#include "runtime/failure_exit.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// Lines for people; JSON has all.
constexpr std::size_t kMostLines = 20;
constexpr std::size_t kMostTooLarge = 3;

// " into 76.0 GiB on a rank and 1.0 TiB of host memory on a node"; "" without any limit.
std::string words_of_limits(const PlannedMachine& machine) {
  std::vector<std::string> limits;
  if (machine.memory > 0) limits.push_back(human_bytes(machine.memory) + " on a rank");
  if (machine.host_memory > 0) limits.push_back(human_bytes(machine.host_memory) + " of host memory on a node");
  return limits.empty() ? "" : " into " + join(limits, " and ");
}

void print_too_large(const Suggestions& found, const PlannedMachine& machine) {
  if (found.too_large.empty()) return;
  fmt::print("\n{} not fit{}; the smallest of them need:\n",
             counted(static_cast<Count>(found.too_large.size()), "layout does", "layouts do"), words_of_limits(machine));
  for (std::size_t i = 0; i < std::min(found.too_large.size(), kMostTooLarge); ++i) {
    const Suggestion& one = found.too_large[i];
    fmt::print("  {}: {}\n", one.layout.name, one.lacks);
  }
}

// "64.0 GiB of host memory on a node", "... which has 1.0 TiB", "... (how much it has is not known: --host-memory-gib)".
std::string words_of_host_memory(const Suggestion& one, const PlannedMachine& machine) {
  const std::string need = fmt::format("{} of host memory on a node", human_bytes(one.host));
  if (machine.host_memory == 0) return need + " (how much it has is not known: --host-memory-gib)";
  return need + ", which has " + human_bytes(machine.host_memory);
}

void print_untimed(const Suggestions& found, const PlannedMachine& machine) {
  if (found.untimed.empty()) return;
  fmt::print("\nWith parallel.offload, whose time is not planned, {}; the smallest of them:\n",
             counted(static_cast<Count>(found.untimed.size()), "layout fits", "layouts fit"));
  for (std::size_t i = 0; i < std::min(found.untimed.size(), kMostTooLarge); ++i) {
    const Suggestion& one = found.untimed[i];
    fmt::print("  {}: {} on a rank, {}\n", one.layout.name, human_bytes(one.memory), words_of_host_memory(one, machine));
  }
}

void print_refused(const Suggestions& found, std::size_t most) {
  if (found.refused.empty()) return;
  fmt::print("\nRefused for this run:\n");
  for (std::size_t i = 0; i < std::min(found.refused.size(), most); ++i) fmt::print("  {}\n", found.refused[i]);
  if (found.refused.size() > most)
    fmt::print("  ... and for {} (--json lists all)\n", counted(static_cast<Count>(found.refused.size() - most), "more reason"));
}

nlohmann::ordered_json json_of(const Suggestion& one) {
  const ParallelSection& p = one.layout.config.parallel;
  const TrainSection& train = one.layout.config.train;
  return {{"layout", one.layout.name},
          {"dp", p.dp},
          {"pp", p.pp},
          {"cp", p.cp},
          {"tp", p.tp},
          {"data", p.data},
          {"shard_ranks", p.shard_ranks},
          {"schedule", p.schedule},
          {"chunks", p.chunks},
          {"tensor_overlap", p.tensor_overlap},
          {"offload", p.offload},
          {"activation_offload", one.layout.config.model.activation_offload},
          {"activation_checkpointing", one.layout.config.model.activation_checkpointing},
          {"checkpointed_layers", one.layout.config.model.checkpointed_layers},
          {"micro_batch", train.micro_batch},
          {"accumulation", train.accumulation},
          {"memory", one.memory},
          {"host_memory_of_node", one.host},
          {"moved", one.moved},
          {"bubble", one.time.bubble()},
          {"step_seconds", one.time.seconds},
          {"reason", one.time.seconds > 0.0 ? words_of_split(one.time.split) : ""}};
}

void print_fitting(const Suggestions& found, int ranks, const PlannedMachine& machine, std::size_t lines) {
  const auto shown_end = found.fitting.begin() + static_cast<std::ptrdiff_t>(std::min(lines, found.fitting.size()));
  const bool host = std::any_of(found.fitting.begin(), shown_end,
                                [](const Suggestion& one) { return one.layout.config.device.kind == "cuda" && one.host > 0; });
  std::vector<std::string> head{"layout", "batch", "memory"};
  if (host) head.emplace_back("host memory");
  head.insert(head.end(), {"step", "where the time goes"});
  Table table(head);
  for (std::size_t i = 0; i < std::min(found.fitting.size(), lines); ++i) {
    const Suggestion& one = found.fitting[i];
    const TrainSection& train = one.layout.config.train;
    std::vector<std::string> line{one.layout.name, fmt::format("{} x {}", train.micro_batch, train.accumulation),
                                  human_bytes(one.memory)};
    if (host) line.push_back(one.host > 0 ? human_bytes(one.host) : "-");
    line.insert(line.end(), {fmt::format("{:.4g} ms", 1e3 * one.time.seconds), words_of_split(one.time.split)});
    table.add(line);
  }
  fmt::print("{} of {} {}{}:\n{}", counted(static_cast<Count>(found.fitting.size()), "layout"), counted(ranks, "rank"),
             found.fitting.size() == 1 ? "fits" : "fit", words_of_limits(machine), table.str(head.size()));
  if (found.fitting.size() > lines)
    fmt::print("... and {} (--json lists all)\n", counted(static_cast<Count>(found.fitting.size() - lines), "slower layout"));
  fmt::print("batch: micro-batch x accumulation; memory: of the rank that needs the most; step: on {},\n{}.\n",
             machine.profile.name, machine.profile.basis);
  if (host)
    fmt::print("host memory: of the node that needs the most, for its {}; {}.\n",
               counted(std::min(ranks, machine.ranks_per_node), "rank"),
               machine.host_memory > 0 ? "it has " + human_bytes(machine.host_memory)
                                       : "how much it has is not known: --host-memory-gib");
}

}  // namespace

RunConfig reference_of_plan(const PlanRunOptions& options, DeviceKind device) {
  PlanRunOptions of_device = options;
  if (options.has_machine()) of_device.overrides.push_back(device == DeviceKind::gpu ? "device.kind=cuda" : "device.kind=cpu");
  return reference_config(read_plan_file(of_device));
}

PlannedMachine machine_of_plan(const PlanRunOptions& options, const RunConfig& run) {
  PlannedMachine machine;
  if (!options.gpu.empty()) {
    machine.profile = datasheet_profile(options.gpu);
  } else if (!options.profile.empty()) {
    machine.profile = read_profile(options.profile);
  } else {
    machine.profile = run.device.kind == "cuda" ? datasheet_profile("h100") : usual_cpu_profile();
  }
  constexpr double kBytesOfGbit = 1e9 / 8.0;
  if (options.network_gbit > 0.0) machine.profile.network.bytes_per_second = kBytesOfGbit * options.network_gbit;
  machine.ranks_per_node = options.ranks_per_node > 0 ? static_cast<int>(options.ranks_per_node) : machine.profile.ranks_per_node;
  machine.memory = options.memory_gib > 0.0 ? static_cast<Bytes>(options.memory_gib * static_cast<double>(kGiB))
                   : options.has_machine()  ? machine.profile.memory
                                            : 0;
  machine.host_memory = options.host_memory_gib > 0.0 ? static_cast<Bytes>(options.host_memory_gib * static_cast<double>(kGiB))
                                                      : machine.profile.host_memory;
  return machine;
}

int ranks_of_machine(const PlanRunOptions& options, const RunConfig& run) {
  const Count ranks = ranks_of_plan(options, run);
  if (ranks > std::numeric_limits<int>::max()) fail(ExitCode::usage, "--ranks {}: more than MPI can count", ranks);
  return static_cast<int>(ranks);
}

void check_some_fit(const Suggestions& found, int ranks, const PlannedMachine& machine) {
  if (!found.fitting.empty()) return;
  if (found.too_large.empty())
    fail(ExitCode::config, "no layout of {} fits this run: {}", counted(ranks, "rank"), found.refused.front());
  const Suggestion& smallest = found.too_large.front();
  const ModelSection& model = smallest.layout.config.model;
  const char* const recompute = model.activation_checkpointing != "full" ? " or set model.activation_checkpointing = \"full\""
                                : model.checkpointed_layers > 0          ? " or raise model.checkpointed_layers"
                                                                         : "";
  std::string offloading;
  if (!found.untimed.empty()) {
    const Suggestion& one = found.untimed.front();
    offloading = fmt::format("; or set parallel.offload, whose time is not planned: {} takes {} on a rank and {}",
                             one.layout.name, human_bytes(one.memory), words_of_host_memory(one, machine));
  }
  fail(ExitCode::config, "no layout of {} fits{}: the smallest, {}, needs {}; give more ranks, lower train.micro_batch{}{}",
       counted(ranks, "rank"), words_of_limits(machine), smallest.layout.name, smallest.lacks, recompute, offloading);
}

void print_suggestions(const Suggestions& found, int ranks, const PlannedMachine& machine, std::size_t lines) {
  if (found.fitting.empty()) {
    fmt::print("No layout of {} fits{} without parallel.offload.\n", counted(ranks, "rank"), words_of_limits(machine));
  } else {
    print_fitting(found, ranks, machine, lines);
  }
  print_untimed(found, machine);
  print_too_large(found, machine);
  print_refused(found, lines / 4);
}

nlohmann::ordered_json to_json(const Suggestions& found) {
  nlohmann::ordered_json json{{"layouts", nlohmann::ordered_json::array()},
                              {"untimed", nlohmann::ordered_json::array()},
                              {"too_large", nlohmann::ordered_json::array()},
                              {"refused", found.refused}};
  for (const Suggestion& one : found.fitting) json["layouts"].push_back(json_of(one));
  for (const Suggestion& one : found.untimed) json["untimed"].push_back(json_of(one));
  for (const Suggestion& one : found.too_large)
    json["too_large"].push_back(
        {{"layout", one.layout.name}, {"memory", one.memory}, {"host_memory_of_node", one.host}, {"lacks", one.lacks}});
  return json;
}

int plan_suggest(const PlanRunOptions& options) {
  const RunConfig run = read_plan_file(options);
  const PlannedMachine machine = machine_of_plan(options, run);
  const RunConfig config = reference_of_plan(options, machine.profile.device);
  check_can_be_timed(config, machine.profile);
  const int ranks = ranks_of_machine(options, run);
  const Suggestions found = suggest_layouts(config, ranks, machine);
  if (found.untimed.empty()) check_some_fit(found, ranks, machine);
  if (!is_printing_rank()) return 0;
  if (options.json) {
    fmt::print("{}\n", to_json(found).dump(1));
  } else {
    print_suggestions(found, ranks, machine, kMostLines);
  }
  return 0;
}

}  // namespace cohort
