// `cohort plan RUN.toml --measure`.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "commands/plan/run_costs.hpp"
#include "config/pipeline.hpp"
#include "parallel/pipeline/timeline.hpp"
#include "plan/compare.hpp"
#include "plan/drawing/drawing.hpp"
#include "runtime/runtime.hpp"
#include "train/counted_step.hpp"
#include "train/estimate.hpp"
#include "train/precision.hpp"
#include "train/train_step.hpp"

namespace cohort {
namespace {

// Mean times of each virtual stage, in seconds.
pipeline::Costs costs_of(const pipeline::Schedule& schedule, const std::vector<pipeline::Event>& events) {
  const auto stages = static_cast<std::size_t>(schedule.virtual_stages());
  pipeline::Costs costs{std::vector<double>(stages), std::vector<double>(stages), 0.0};
  for (const pipeline::Event& event : events) {
    auto& times = event.action.pass == pipeline::Pass::forward ? costs.forward : costs.backward;
    times[static_cast<std::size_t>(schedule.virtual_stage({event.rank, event.action.chunk}))] +=
        (event.end - event.start) / schedule.micro_batches;
  }
  return costs;
}

struct MeasuredOutcome {
  RunConfig config;
  ByKind<PaperMemory> paper;
  std::vector<Traffic> traffic;
  std::vector<PaperTraffic> paper_traffic;
  Measurement measured;
  std::vector<Comparison> memory, messages;
  Comparison others;

  bool all_equal() const { return first_off() == nullptr; }
  // The first number that is off by more than its limit; null if there is none.
  const Comparison* first_off() const {
    for (const auto* lines : {&memory, &messages}) {
      for (const Comparison& line : *lines) {
        if (!line.within()) return &line;
      }
    }
    return others.within() ? nullptr : &others;
  }
};

MeasuredOutcome compare(const RunConfig& config, const Measurement& measured) {
  const std::vector<CountedStep> stages = count_stages(config);
  const PredictedMemory memory = predict_memory(stages);
  MeasuredOutcome outcome{.config = config,
                          .paper = paper_memory(config),
                          .traffic = predict_traffic(stages),
                          .paper_traffic = paper_traffic(config),
                          .measured = measured,
                          .memory = compare_memory(memory, measured),
                          .messages = {},
                          .others = compare_others(memory, measured)};
  outcome.messages = compare_traffic(outcome.traffic, measured);
  return outcome;
}

std::string off(const Comparison& line) {
  if (line.measured == 0 && line.predicted > 0) return "all";
  const std::string off = fmt::format("{:+.2f} %", 100.0 * line.off());
  return line.predicted == line.measured ? "0" : off == "-0.00 %" || off == "+0.00 %" ? "0.00 %" : off;
}

// A pipeline's time, as it was and by the formula.
void print_bubble(const MeasuredOutcome& outcome) {
  const std::vector<pipeline::Event>& events = outcome.measured.events;
  if (events.empty()) return;
  const pipeline::Schedule schedule = schedule_of(outcome.config.parallel, outcome.config.train.accumulation);
  const pipeline::Occupation occupation = pipeline::occupation_of(events, schedule.stages);
  const pipeline::Costs costs = costs_of(schedule, events);
  const double simulated = pipeline::occupation_of(pipeline::simulate(schedule, costs), schedule.stages).bubble();
  Table table({"stage", "forward ms", "backward ms"});
  for (std::size_t stage = 0; stage < costs.forward.size(); ++stage)
    table.add({fmt::to_string(stage), fmt::format("{:.2f}", 1e3 * costs.forward[stage]),
               fmt::format("{:.2f}", 1e3 * costs.backward[stage])});
  fmt::print("\nThe pipeline, {}, as measured (mean times of a micro-batch, stages in the order of the model):\n{}",
             counted(schedule.micro_batches, "micro-batch", "micro-batches"), table.str(0));
  fmt::print(
      "Bubble, the idle share of all ranks' time: measured {:.1f} %; simulated with these times {:.1f} %; formula "
      "(S-1)/(VM+S-1): {:.1f} %.\nThe formula assumes equal stages and instant messages. Ranks that share cores also wait for "
      "those.\n",
      100.0 * occupation.bubble(), 100.0 * simulated, 100.0 * pipeline::bubble_formula(schedule));
}

void draw_pipeline(const MeasuredOutcome& outcome, const std::filesystem::path& path) {
  std::vector<pipeline::Event> events = outcome.measured.events;
  for (pipeline::Event& event : events) {  // from seconds
    event.start *= 1e3;
    event.end *= 1e3;
  }
  write_file_atomically(path, pipeline::draw_svg(events, "a step as measured, " + outcome.config.parallel.schedule, "ms"));
}

std::string verdict(const Comparison& line) {
  if (!line.within()) return "OFF: more than " + human_bytes(line.limit());
  return line.predicted == line.measured ? "" : "within " + human_bytes(line.limit());
}

void print_memory(const MeasuredOutcome& outcome) {
  Table table({"memory", "predicted", "measured", "off", "", "paper", "formula"});
  for (std::size_t i = 0; i < outcome.memory.size(); ++i) {
    const Comparison& line = outcome.memory[i];
    const PaperMemory paper = i < outcome.paper.values.size() ? outcome.paper.values[i] : PaperMemory{};
    table.add({line.what, human_bytes(line.predicted), human_bytes(line.measured), off(line), verdict(line),
               paper.formula.empty() ? "-" : human_bytes(static_cast<Bytes>(paper.bytes)), paper.formula});
  }
  fmt::print("\nMemory of the rank that needs the most:\n{}", table.str());
  fmt::print("Arenas hold {} for activations, used or not.", human_bytes(outcome.measured.arenas));
  if (!outcome.measured.others.empty()) fmt::print(" Other buffers, {} predicted:", human_bytes(outcome.others.predicted));
  std::vector<std::string> others;
  for (const auto& [label, bytes] : outcome.measured.others) others.push_back(fmt::format("{} {}", label, human_bytes(bytes)));
  if (!others.empty()) fmt::print(" {}.", join(others));
  fmt::print("{}\n", outcome.others.within() ? "" : " OFF.");
}

void print_traffic(const MeasuredOutcome& outcome) {
  if (outcome.messages.empty()) {
    fmt::print("\nA single rank sends nothing.\n");
    return;
  }
  Table table({"group and operation", "calls", "predicted", "measured", "off", "", "moved"});
  for (const Comparison& line : outcome.messages) {
    Count calls = 0;
    Bytes moved = line.measured;
    for (const MeasuredTraffic& one : outcome.measured.traffic) {
      if (one.group + " " + one.operation == line.what) calls = one.calls;
    }
    for (const Traffic& one : outcome.traffic) {
      if (one.group + " " + one.operation == line.what) moved = moved_bytes(one.operation, one.ranks, line.measured);
    }
    table.add({line.what, fmt::to_string(calls), human_bytes(line.predicted), human_bytes(line.measured), off(line),
               verdict(line), human_bytes(moved)});
  }
  fmt::print("\nMost bytes that a rank passes to its calls in a step, and what a ring moves of them:\n{}", table.str());
  for (const PaperTraffic& paper : outcome.paper_traffic)
    fmt::print("According to the paper, {} moves {}: {}.\n", paper.axis, human_bytes(static_cast<Bytes>(paper.moved)),
               paper.formula);
}

nlohmann::ordered_json to_json(const std::vector<Comparison>& lines) {
  auto json = nlohmann::ordered_json::array();
  for (const Comparison& line : lines) {
    json.push_back({{"what", line.what},
                    {"predicted", line.predicted},
                    {"measured", line.measured},
                    {"off", std::isfinite(line.off()) ? nlohmann::ordered_json(line.off()) : nlohmann::ordered_json("all")},
                    {"limit", line.limit()},
                    {"equal", line.within()}});
  }
  return json;
}

nlohmann::ordered_json bubble_of(const MeasuredOutcome& outcome) {
  if (outcome.measured.events.empty()) return nullptr;
  const pipeline::Schedule schedule = schedule_of(outcome.config.parallel, outcome.config.train.accumulation);
  return {{"measured", pipeline::occupation_of(outcome.measured.events, schedule.stages).bubble()},
          {"formula", pipeline::bubble_formula(schedule)}};
}

void print(const MeasuredOutcome& outcome, const PlanRunOptions& options) {
  if (options.json) {
    const nlohmann::ordered_json json{{"equal", outcome.all_equal()},
                                      {"memory", to_json(outcome.memory)},
                                      {"others", to_json({outcome.others})},
                                      {"traffic", to_json(outcome.messages)},
                                      {"step_seconds", outcome.measured.step_seconds},
                                      {"bubble", bubble_of(outcome)}};
    fmt::print("{}\n", json.dump(1));
    return;
  }
  const ParallelSection& p = outcome.config.parallel;
  fmt::print("layout      {}, {}\nbatch       {}\nmeasured    {}, the last in {:.1f} ms\n", mesh_shape_of(p).str(), p.data,
             batch_arithmetic(outcome.config), counted(options.steps, "step"), 1e3 * outcome.measured.step_seconds);
  print_memory(outcome);
  print_traffic(outcome);
  print_bubble(outcome);
  const std::string limits = fmt::format(
      "{:.1f} % of each kind of memory and of their total (or, where that is less, {}); messages to the byte (but for {} of "
      "numbers)",
      100.0 * kTolerance, human_bytes(kMemoryAllowance), human_bytes(kTrafficAllowance));
  if (const Comparison* line = outcome.first_off()) {
    fmt::print("\nOFF: {}: predicted {}, measured {}, more than {} apart. Allowed: {}.\n", line->what,
               human_bytes(line->predicted), human_bytes(line->measured), human_bytes(line->limit()), limits);
  } else {
    fmt::print("\nAll predictions are within {}.\n", limits);
  }
}

}  // namespace

int plan_measure(const PlanRunOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  RunConfig config = load_run(runtime, *world, options.run_file, options.overrides, world->size());
  if (!options.svg.empty() && config.parallel.pp == 1)
    throw SharedError(ExitCode::config, "--svg draws a pipeline, but parallel.pp = 1");
  std::filesystem::path picture;
  fail_together(*world, "looking at what --svg names", [&] {
    if (world->rank() == 0 && !options.svg.empty()) picture = output_file("--svg", options.svg, options.overwrite);
  });
  const RunData data = open_data(*world, config, DataUse::training);
  set_up_job(runtime, *world, config);
  const MeasuredOutcome outcome = compare(config, measure(config, data, *world, options.steps));
  if (world->rank() == 0) {
    print(outcome, options);
    if (!options.svg.empty()) draw_pipeline(outcome, picture);
  }
  flush_console();
  world->barrier();  // a launcher ends the job when the first rank exits with a code
  return static_cast<int>(outcome.all_equal() ? ExitCode::success : ExitCode::unequal);
}

}  // namespace cohort
