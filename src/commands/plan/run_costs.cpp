#include "commands/plan/run_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "data/token_file.hpp"
#include "gpu/device.hpp"
#include "mesh/mesh_shape.hpp"
#include "plan/memory.hpp"
#include "plan/part.hpp"
#include "plan/traffic.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/launcher.hpp"
#include "train/check_optimizer.hpp"
#include "train/data_setup.hpp"
#include "train/estimate.hpp"
#include "train/host_memory.hpp"

namespace cohort {
namespace {

// All that is predicted of a run, as it is printed.
struct Plan {
  RunConfig config;
  MeshShape mesh;
  Count parameters = 0;      // of the model
  Count own_parameters = 0;  // most on one rank, before ZeRO divides them
  double flops = 0.0;        // of a rank in a step
  double bubble = 0.0;
  PredictedMemory memory;
  int ranks_per_node = 0;  // 0: not known
  Bytes host_of_node = 0;  // what they keep in its memory together
  ByKind<PaperMemory> paper;
  std::vector<Traffic> traffic;
  std::vector<PaperTraffic> paper_traffic;
};

Plan make_plan(const RunConfig& config, int ranks_per_node) {
  const ParallelSection& p = config.parallel;
  Plan plan;
  plan.config = config;
  plan.mesh = MeshShape(p.dp, p.pp, p.cp, p.tp);
  plan.parameters = count_parameters(config.model);
  for (const int stage : stages_to_count(config)) {
    const PlannedPart part(config, stage);
    plan.own_parameters = std::max(plan.own_parameters, part.model().parameters().elements());
    if (stage > 0) continue;
    const Count tokens = units_per_sample(config.model);
    plan.flops = part.model().flops_per_token(tokens) * static_cast<double>(tokens * config.train.global_batch) /
                 static_cast<double>(plan.mesh.world());
  }
  if (p.pp > 1) plan.bubble = pipeline::bubble_formula(schedule_of(p, config.train.accumulation));
  const std::vector<CountedStep> stages = count_stages(config);
  plan.memory = predict_memory(stages);
  plan.ranks_per_node = ranks_per_node;
  if (ranks_per_node > 0) plan.host_of_node = host_memory_of_node(config, stages, ranks_per_node);
  plan.paper = paper_memory(config);
  plan.traffic = predict_traffic(stages);
  plan.paper_traffic = paper_traffic(config);
  return plan;
}

void print_memory(const Plan& plan) {
  Table table({"memory", "predicted", "paper", "formula"});
  for (const MemoryKind kind : kMemoryKinds) {
    const PaperMemory& paper = plan.paper[kind];
    table.add({std::string(name_of(kind)), human_bytes(plan.memory.kinds[kind]),
               paper.formula.empty() ? "-" : human_bytes(static_cast<Bytes>(paper.bytes)), paper.formula});
  }
  table.add({"all, of one rank", human_bytes(plan.memory.total), "", ""});
  fmt::print("\nMemory of the rank that needs the most:\n{}", table.str());
  if (plan.memory.host > 0)
    fmt::print("Offloaded to host memory: {} by a rank, {}.\n", human_bytes(plan.memory.host),
               plan.ranks_per_node > 0 ? fmt::format("{} on each node by its {}", human_bytes(plan.host_of_node),
                                                     counted(std::min(plan.ranks_per_node, plan.mesh.world()), "rank"))
                                       : "and --ranks-per-node gives the sum of a node");
  if (plan.memory.disk > 0) fmt::print("Offloaded to a file: {}.\n", human_bytes(plan.memory.disk));
  fmt::print("P: parameters of the rank ({}), N: ranks that share them, s b h a t: tokens, samples, width, heads, tp.\n",
             human_count(static_cast<double>(plan.own_parameters)));
  if (const Bytes ours = activation_bytes_per_token_and_layer(plan.config); ours > 0) {
    const bool some = plan.config.model.checkpointed_layers > 0;
    fmt::print(
        "Cohort keeps {} bytes per token and {}layer: no a s x s scores, since flash attention recomputes them, and no\n"
        "dropout masks. The other activations are {}the two ends of the model and the scratch memory of one block.\n",
        ours, some ? "checkpointed " : "", some ? "those of the other layers, " : "");
  }
}

void print_traffic(const Plan& plan) {
  if (plan.traffic.empty()) {
    fmt::print("\nA single rank sends nothing.\n");
    return;
  }
  Table table({"group", "operation", "ranks", "calls", "given", "moved"});
  Bytes moved = 0;
  for (const Traffic& one : plan.traffic) {
    moved += one.moved();
    table.add({one.group, fmt::format("{} of {}", one.operation, one.purpose), fmt::to_string(one.ranks),
               fmt::to_string(one.calls), human_bytes(one.bytes), human_bytes(one.moved())});
  }
  table.add({"all", "", "", "", "", human_bytes(moved)});
  fmt::print("\nMost bytes that a rank sends in a step:\n{}", table.str(2));
  for (const PaperTraffic& paper : plan.paper_traffic)
    fmt::print("According to the paper, {} moves {}: {}.\n", paper.axis, human_bytes(static_cast<Bytes>(paper.moved)),
               paper.formula);
  fmt::print(
      "given: what the rank passes to the call; moved: what it then sends in a ring, 2(N-1)/N of it for an all-reduce,\n"
      "(N-1)/N for a reduce-scatter or an all-gather.\n");
}

void print_plan(const Plan& plan) {
  const ParallelSection& parallel = plan.config.parallel;
  fmt::print("layout      {} = {}, {}\n", plan.mesh.str(), counted(plan.mesh.world(), "rank"), parallel.data);
  fmt::print("batch       {}\n", batch_arithmetic(plan.config));
  fmt::print("model       {}, {} parameters; {} on the rank with the most\n", plan.config.model.kind,
             human_count(static_cast<double>(plan.parameters)), human_count(static_cast<double>(plan.own_parameters)));
  fmt::print("{}", describe_stages(plan.config));
  fmt::print("compute     {:.3g} TFLOP per rank and step, from 6 N + 12 L C T per token\n", 1e-12 * plan.flops);
  if (parallel.pp > 1) {
    fmt::print("bubble      {:.1f} % of each rank's time is idle: (S-1)/(VM+S-1), S {}, V {}, M {}\n", 100.0 * plan.bubble,
               parallel.pp, parallel.chunks, plan.config.train.accumulation);
  }
  print_memory(plan);
  print_traffic(plan);
}

nlohmann::ordered_json to_json(const Plan& plan) {
  const ParallelSection& p = plan.config.parallel;
  nlohmann::ordered_json json{{"ranks", plan.mesh.world()},
                              {"dp", p.dp},
                              {"pp", p.pp},
                              {"cp", p.cp},
                              {"tp", p.tp},
                              {"data", p.data},
                              {"micro_batch", plan.config.train.micro_batch},
                              {"accumulation", plan.config.train.accumulation},
                              {"global_batch", plan.config.train.global_batch},
                              {"parameters", plan.parameters},
                              {"parameters_of_rank", plan.own_parameters},
                              {"flops_of_rank", plan.flops},
                              {"bubble", plan.bubble}};
  for (const MemoryKind kind : kMemoryKinds) {
    const PaperMemory& paper = plan.paper[kind];
    json["memory"][std::string(name_of(kind))] = {
        {"predicted", plan.memory.kinds[kind]}, {"paper", paper.bytes}, {"formula", paper.formula}};
  }
  json["memory_of_rank"] = plan.memory.total;
  json["host_memory_of_rank"] = plan.memory.host;
  json["host_memory_of_node"] = plan.ranks_per_node > 0 ? nlohmann::ordered_json(plan.host_of_node) : nullptr;
  json["traffic"] = nlohmann::ordered_json::array();
  for (const Traffic& one : plan.traffic) {
    json["traffic"].push_back({{"group", one.group},
                               {"operation", one.operation},
                               {"purpose", one.purpose},
                               {"ranks", one.ranks},
                               {"calls", one.calls},
                               {"given", one.bytes},
                               {"moved", one.moved()}});
  }
  json["paper_traffic"] = nlohmann::ordered_json::array();
  for (const PaperTraffic& paper : plan.paper_traffic)
    json["paper_traffic"].push_back({{"axis", paper.axis}, {"moved", paper.moved}, {"formula", paper.formula}});
  return json;
}

// Of those that were started, if none are told; 0: not known.
int ranks_of_node(const PlanRunOptions& options) {
  if (options.ranks_per_node > 0 || options.ranks > 0) return static_cast<int>(options.ranks_per_node);
  return read_launcher_facts(current_environment()).local_size.value_or(0);
}

RunConfig load_plan(const PlanRunOptions& options) {
  RunConfig config = read_plan_file(options);
  // A laptop may plan for a cluster's GPUs.
  validate(config, ranks_of_plan(options, config), {.cuda = true, .gpus = gpu::visible_devices() > 0});
  check_optimizer(config);
  return config;
}

}  // namespace

RunConfig read_plan_file(const PlanRunOptions& options) {
  RunConfig config = load_run_file(options.run_file, options.overrides);
  const std::string file = config.data.token_files().front();  // all files of a mixture have the same vocabulary
  if (config.data.kind != "tokens" || config.model.vocabulary > 0 || file.empty()) return config;
  try {
    config.model.vocabulary = TokenFile(file).vocabulary_size();
  } catch (const Error& error) {
    fail(error.code(), "{} (to plan without the token file, give its size: --set model.vocabulary=50257)", error.what());
  }
  return config;
}

Count ranks_of_plan(const PlanRunOptions& options, const RunConfig& config) {
  if (options.ranks > 0) return options.ranks;
  if (const std::optional<int> launched = read_launcher_facts(current_environment()).size) return *launched;
  const ParallelSection& p = config.parallel;
  return std::max<Count>(1, p.dp) * p.pp * p.cp * p.tp;
}

int plan_run(const PlanRunOptions& options) {
  const Plan plan = make_plan(load_plan(options), ranks_of_node(options));
  if (!is_printing_rank()) return 0;
  if (options.json) {
    fmt::print("{}\n", to_json(plan).dump(1));
  } else {
    print_plan(plan);
  }
  return 0;
}

}  // namespace cohort
