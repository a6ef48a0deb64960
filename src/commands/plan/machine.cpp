// `cohort plan RUN.toml --gpu h100 --gpus 1024`: how to run on a machine, and why.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/common/output_file.hpp"
#include "commands/plan/machine_plan.hpp"
#include "commands/plan/machine_words.hpp"
#include "plan/drawing/machine_drawing.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

constexpr std::size_t kMostLayouts = 8;
constexpr std::size_t kColumns = 100;

// In lines of kColumns, those after the first indented.
std::string wrapped(const std::string& paragraph) {
  std::string text, line;
  for (const std::string& word : split(paragraph, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      text += line + "\n";
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return text + line + "\n";
}

void print_split(const StepTime& time) {
  Table table({"a step", "ms", ""});
  const auto line = [&](const std::string& what, double seconds) {
    if (seconds > 0.0)
      table.add({what, fmt::format("{:.4g}", 1e3 * seconds), fmt::format("{:.1f} %", 100.0 * seconds / time.seconds)});
  };
  line("matrix products", time.split.products);
  line("attention", time.split.attention);
  line("element-wise ops", time.split.pointwise);
  line("optimizer", time.split.optimizer);
  for (const auto& [group, seconds] : time.split.exposed) line("waiting for " + group, seconds);
  line("waiting for host copies", time.split.host_copies);
  line("bubble", time.split.bubble);
  line("all", time.seconds);
  fmt::print("\n{}", table.str());
  const auto say_what_is_hidden = [](const char* what, double seconds, double waiting) {
    if (seconds > 0.0)
      fmt::print("{} take {:.4g} ms, of which {:.0f} % are hidden behind computation.\n", what, 1e3 * seconds,
                 100.0 * std::max(0.0, 1.0 - waiting / seconds));
  };
  say_what_is_hidden("Collectives", time.communication, time.split.communicating());
  say_what_is_hidden("Copies from and to the host", time.host_copies, time.split.host_copies);
}

void print_curve(const std::vector<ScalingPoint>& points, const char* title) {
  if (points.empty()) return;
  const bool copies = points.front().time.host_copies > 0.0;
  std::vector<std::string> head{"ranks", "global batch", "step ms", "tokens/s", "efficiency", "computing", "collectives"};
  if (copies) head.emplace_back("host copies");
  head.emplace_back("bubble");
  Table table(head);
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100.0 * share); };
  for (const ScalingPoint& point : points) {
    const StepTime& time = point.time;
    std::vector<std::string> line{std::to_string(point.ranks),
                                  std::to_string(point.global_batch),
                                  fmt::format("{:.4g}", 1e3 * time.seconds),
                                  human_count(point.tokens_per_second),
                                  percent(point.efficiency),
                                  percent(time.split.computing() / time.seconds),
                                  percent(time.split.communicating() / time.seconds)};
    if (copies) line.push_back(percent(time.split.host_copies / time.seconds));
    line.push_back(percent(time.bubble()));
    table.add(line);
  }
  fmt::print("\n{}:\n{}", title, table.str(0));
}

void print_plan(const MachinePlan& plan) {
  fmt::print("{}\n", wrapped(words_of_machine(plan)));
  for (const std::string& paragraph : explanation(plan)) fmt::print("{}", wrapped(paragraph));
  fmt::print("\n");
  print_suggestions(plan.found, plan.ranks, plan.machine, kMostLayouts);
  print_split(plan.best().time);
  print_curve(plan.curve.weak, "More ranks, each with as many samples (weak scaling)");
  print_curve(plan.curve.strong, "More ranks for the same global batch (strong scaling)");
  if (!plan.machine.profile.measured)
    fmt::print("\nEstimates: `cohort bench calibration` measures a machine, and --profile plans for it.\n");
}

nlohmann::ordered_json json_of(const StepTime& time) {
  nlohmann::ordered_json exposed = nlohmann::ordered_json::object();
  for (const auto& [group, seconds] : time.split.exposed) exposed[group] = seconds;
  return {{"seconds", time.seconds},
          {"products", time.split.products},
          {"attention", time.split.attention},
          {"pointwise", time.split.pointwise},
          {"optimizer", time.split.optimizer},
          {"exposed", exposed},
          {"exposed_host_copies", time.split.host_copies},
          {"bubble", time.split.bubble},
          {"communication", time.communication},
          {"host_copies", time.host_copies}};
}

nlohmann::ordered_json json_of(const std::vector<ScalingPoint>& points) {
  auto json = nlohmann::ordered_json::array();
  for (const ScalingPoint& point : points)
    json.push_back({{"ranks", point.ranks},
                    {"global_batch", point.global_batch},
                    {"memory", point.memory},
                    {"step", json_of(point.time)},
                    {"tokens_per_second", point.tokens_per_second},
                    {"efficiency", point.efficiency}});
  return json;
}

nlohmann::ordered_json json_of(const MachinePlan& plan) {
  nlohmann::ordered_json json = to_json(plan.found);
  nlohmann::ordered_json answer{
      {"machine", plan.machine.profile.name},
      {"basis", plan.machine.profile.basis},
      {"estimate", !plan.machine.profile.measured},
      {"ranks", plan.ranks},
      {"ranks_per_node", plan.machine.ranks_per_node},
      {"memory_of_rank", plan.machine.memory},
      {"host_memory_limit", plan.machine.host_memory > 0 ? nlohmann::ordered_json(plan.machine.host_memory) : nullptr},
      {"parameters", plan.parameters},
      {"best", plan.best().layout.name},
      {"step", json_of(plan.best().time)},
      {"tokens_per_second", plan.tokens_per_second()},
      {"mfu", plan.mfu ? nlohmann::ordered_json(*plan.mfu) : nullptr},
      {"tokens", plan.tokens},
      {"days", plan.days()},
      {"gpu_hours", plan.gpu_hours()},
      {"cost", plan.price > 0.0 ? nlohmann::ordered_json(plan.price * plan.gpu_hours()) : nullptr},
      {"failure_seconds", plan.goodput.failure_seconds},
      {"checkpoint_interval_seconds", plan.goodput.interval_seconds},
      {"goodput", plan.goodput.share},
      {"explanation", explanation(plan)},
      {"weak_scaling", json_of(plan.curve.weak)},
      {"strong_scaling", json_of(plan.curve.strong)}};
  answer.update(json);
  return answer;
}

}  // namespace

int plan_machine(const PlanRunOptions& options) {
  std::filesystem::path picture;
  if (is_printing_rank() && !options.svg.empty()) picture = output_file("--svg", options.svg, options.overwrite);
  const MachinePlan plan = make_machine_plan(options);
  if (!is_printing_rank()) return 0;
  if (options.json) {
    fmt::print("{}\n", json_of(plan).dump(1));
  } else {
    print_plan(plan);
  }
  if (options.svg.empty()) return 0;
  const std::string title =
      fmt::format("{} parameters on {}, {}{}", human_count(static_cast<double>(plan.parameters)), plan.machine.profile.name,
                  plan.best().layout.name, plan.machine.profile.measured ? "" : " (estimates)");
  write_file_atomically(picture, draw_machine_plan(plan.curve, title));
  if (!options.json) fmt::print("Drawn in {}\n", options.svg);
  return 0;
}

}  // namespace cohort
