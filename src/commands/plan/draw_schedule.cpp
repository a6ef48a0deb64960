#include "commands/plan/draw_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/common/output_file.hpp"
#include "parallel/pipeline/timeline.hpp"
#include "plan/drawing/drawing.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

using pipeline::Event;
using pipeline::Occupation;
using pipeline::Schedule;
using pipeline::ScheduleKind;

// What simulates in a few seconds, and what a viewer or a JSON reader still opens.
constexpr Count kMostSimulated = Count{1} << 22;
constexpr Count kMostListed = 200'000;
// Rows of the text; the ranks between the ends look like their neighbours.
constexpr int kMostRows = 64;

Schedule schedule_of(const PlanScheduleOptions& options) {
  return {pipeline::schedule_kind_from_name(options.schedule), options.stages, options.chunks, options.micro_batches};
}

/// The same model and micro-batches under another schedule; interleaved with the chunks asked for, or 2.
Schedule alternative(const PlanScheduleOptions& options, ScheduleKind kind) {
  const int chunks = kind == ScheduleKind::interleaved ? std::max(options.chunks, 2) : 1;
  return {kind, options.stages, chunks, options.micro_batches};
}

/// A step has 2 S V M actions.
void check_size(const Schedule& schedule, Count most, const char* purpose) {
  const Count actions_of_micro_batch = Count{2} * schedule.stages * schedule.chunks;
  Count fitting = most / actions_of_micro_batch;
  if (schedule.micro_batches <= fitting) return;
  if (schedule.kind == ScheduleKind::interleaved) fitting -= fitting % schedule.stages;
  fail(ExitCode::config,
       "{} on {}: {} takes at most {} actions, and the {} schedule with chunks {} has {} per micro-batch; try {}",
       counted(schedule.micro_batches, "micro-batch", "micro-batches"), counted(schedule.stages, "stage"), purpose, most,
       name_of(schedule.kind), schedule.chunks, actions_of_micro_batch,
       fitting > 0 ? "at most " + counted(fitting, "micro-batch", "micro-batches") : "fewer stages");
}

void check_time(const char* option, double value, bool may_be_zero) {
  if (std::isfinite(value) && (value > 0.0 || (may_be_zero && value == 0.0))) return;
  fail(ExitCode::config, "{} {}: it must be {}", option, value, may_be_zero ? "0 or more" : "more than 0");
}

void check_options(const PlanScheduleOptions& options) {
  const Schedule schedule = schedule_of(options);
  check(schedule);
  check_time("--forward-ms", options.forward_ms, false);
  check_time("--backward-ms", options.backward_ms, false);
  check_time("--transfer-ms", options.transfer_ms, true);
  for (const double cost : options.stage_costs) check_time("--stage-costs", cost, false);
  const Count costs = static_cast<Count>(options.stage_costs.size());
  if (costs != 0 && costs != schedule.stages && costs != schedule.virtual_stages()) {
    const std::string or_finer = schedule.chunks == 1 ? "" : fmt::format(", or {} (stages x chunks)", schedule.virtual_stages());
    fail(ExitCode::config, "--stage-costs has {}: give {}, one per stage{}", counted(costs, "number"), schedule.stages, or_finer);
  }
  if (options.width < 40 || options.width > 10'000) {
    fail(ExitCode::config, "--width {}: a timeline needs from 40 to 10000 columns", options.width);
  }
  check_size(schedule, kMostSimulated, "the simulation");
  if (!options.svg.empty()) check_size(schedule, kMostListed, "an SVG");
  if (options.json) check_size(schedule, kMostListed, "JSON");
}

/// The model is as many equal parts as the finest schedule has virtual stages, each with its factor. A virtual stage of a
/// schedule is one part, or several that follow each other.
pipeline::Costs costs_of(const PlanScheduleOptions& options, const Schedule& schedule) {
  const std::size_t parts = static_cast<std::size_t>(alternative(options, ScheduleKind::interleaved).virtual_stages());
  const std::size_t virtual_stages = static_cast<std::size_t>(schedule.virtual_stages());
  const std::size_t parts_of_rank = parts / static_cast<std::size_t>(schedule.stages);
  pipeline::Costs costs{std::vector<double>(virtual_stages), std::vector<double>(virtual_stages), options.transfer_ms};
  for (std::size_t part = 0; part < parts; ++part) {
    const double factor = options.stage_costs.empty() ? 1.0 : options.stage_costs[part * options.stage_costs.size() / parts];
    const std::size_t virtual_stage = part * virtual_stages / parts;
    costs.forward[virtual_stage] += options.forward_ms * factor / static_cast<double>(parts_of_rank);
    costs.backward[virtual_stage] += options.backward_ms * factor / static_cast<double>(parts_of_rank);
  }
  return costs;
}

/// What a schedule comes to, or why there is none for these numbers.
struct SimulatedOutcome {
  Schedule schedule;
  std::string refusal;
  std::vector<Event> events;
  Occupation occupation;
  std::vector<Count> in_flight;  // the most, by rank
  Count messages = 0;            // of all ranks in a step

  Count most_in_flight() const { return *std::max_element(in_flight.begin(), in_flight.end()); }
};

SimulatedOutcome simulated(const PlanScheduleOptions& options, const Schedule& schedule) {
  SimulatedOutcome outcome{schedule, "", simulate(schedule, costs_of(options, schedule)), {}, {}};
  outcome.occupation = occupation_of(outcome.events, schedule.stages);
  for (int rank = 0; rank < schedule.stages; ++rank) outcome.in_flight.push_back(most_in_flight(schedule, rank));
  if (schedule.stages > 1) outcome.messages = Count{2} * schedule.micro_batches * (schedule.virtual_stages() - 1);
  return outcome;
}

/// In the order of kScheduleKinds. The one that was asked for is among them, and not refused.
std::vector<SimulatedOutcome> all_outcomes(const PlanScheduleOptions& options) {
  std::vector<SimulatedOutcome> all;
  for (const ScheduleKind kind : pipeline::kScheduleKinds) {
    const Schedule schedule = alternative(options, kind);
    try {
      check(schedule);
      check_size(schedule, kMostSimulated, "the simulation");
      all.push_back(simulated(options, schedule));
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      all.push_back({schedule, error.what(), {}, {}, {}});
    }
  }
  return all;
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100.0 * fraction); }

std::string ms(double time) { return fmt::format("{:.6g}", time); }

void print_ranks(const SimulatedOutcome& outcome) {
  const Schedule& schedule = outcome.schedule;
  Table table({"rank", "busy ms", "idle ms", "idle", "in flight"});
  for (int rank = 0; rank < std::min(schedule.stages, kMostRows); ++rank) {
    const double idle = outcome.occupation.idle(rank);
    const std::size_t at = static_cast<std::size_t>(rank);
    table.add({std::to_string(rank), ms(outcome.occupation.busy[at]), ms(std::max(idle, 0.0)),
               percent(std::max(idle, 0.0) / outcome.occupation.total), std::to_string(outcome.in_flight[at])});
  }
  fmt::print("{}", table.str());
  if (schedule.stages > kMostRows) fmt::print("... and {}\n", counted(schedule.stages - kMostRows, "more rank"));
}

void print_bubble(const SimulatedOutcome& outcome) {
  const Schedule& schedule = outcome.schedule;
  const bool one_chunk = schedule.chunks == 1;
  const std::string formula =
      one_chunk ? fmt::format("(S-1)/(M+S-1) = {}/{}", schedule.stages - 1, schedule.micro_batches + schedule.stages - 1)
                : fmt::format("(S-1)/(VM+S-1) = {}/{}", schedule.stages - 1,
                              Count{schedule.chunks} * schedule.micro_batches + schedule.stages - 1);
  fmt::print("\nThe step takes {} ms. Bubble, the idle share of all ranks' time: {}; formula: {} = {}.\n",
             ms(outcome.occupation.total), percent(outcome.occupation.bubble()), formula, percent(bubble_formula(schedule)));
  if (std::abs(outcome.occupation.bubble() - bubble_formula(schedule)) > 1e-6) {
    fmt::print("They differ because the formula assumes equal stages and instant messages.\n");
  }
  fmt::print("In flight: the most activations that a rank holds at once, in {}.\n",
             one_chunk ? "micro-batches" : "micro-batches x chunks");
}

void print_comparison(const PlanScheduleOptions& options, const std::vector<SimulatedOutcome>& all) {
  fmt::print("\nThe schedules with {} and {}:\n", counted(options.stages, "stage"),
             counted(options.micro_batches, "micro-batch", "micro-batches"));
  Table table({"schedule", "chunks", "step ms", "bubble", "formula", "activations", "messages"});
  for (const SimulatedOutcome& one : all) {
    const std::string name(name_of(one.schedule.kind));
    const std::string chunks = std::to_string(one.schedule.chunks);
    if (!one.refusal.empty()) {
      table.add({name, chunks, "-", "-", "-", "-", "-"});
      continue;
    }
    const double micro_batches = static_cast<double>(one.most_in_flight()) / one.schedule.chunks;
    table.add({name, chunks, ms(one.occupation.total), percent(one.occupation.bubble()), percent(bubble_formula(one.schedule)),
               fmt::format("{:.6g}", micro_batches), std::to_string(one.messages)});
  }
  fmt::print("{}", table.str());
  fmt::print("activations: peak of the fullest rank, in micro-batches through all its layers; messages: of all ranks\n");
  for (const SimulatedOutcome& one : all) {
    if (!one.refusal.empty()) fmt::print("{}: {}\n", name_of(one.schedule.kind), one.refusal);
  }
}

void print_text(const PlanScheduleOptions& options, const SimulatedOutcome& outcome, const std::vector<SimulatedOutcome>& all) {
  const Schedule& schedule = outcome.schedule;
  fmt::print("Schedule {}: {}, {}", name_of(schedule.kind), counted(schedule.stages, "stage"),
             counted(schedule.micro_batches, "micro-batch", "micro-batches"));
  if (schedule.chunks > 1) fmt::print(", {} chunks per rank", schedule.chunks);
  fmt::print(". A micro-batch takes {} ms forward and {} ms backward on a rank{}, a message {} ms.\n\n", ms(options.forward_ms),
             ms(options.backward_ms), options.stage_costs.empty() ? "" : " (times --stage-costs)", ms(options.transfer_ms));
  std::vector<Event> shown = outcome.events;
  std::erase_if(shown, [](const Event& event) { return event.rank >= kMostRows; });
  fmt::print("{}\n", draw_text(shown, options.width, "ms"));
  print_ranks(outcome);
  print_bubble(outcome);
  print_comparison(options, all);
}

nlohmann::ordered_json figures(const SimulatedOutcome& outcome) {
  const Schedule& schedule = outcome.schedule;
  return {{"schedule", name_of(schedule.kind)},
          {"stages", schedule.stages},
          {"chunks", schedule.chunks},
          {"micro_batches", schedule.micro_batches},
          {"step_ms", outcome.occupation.total},
          {"bubble", outcome.occupation.bubble()},
          {"bubble_formula", bubble_formula(schedule)},
          {"most_in_flight", outcome.most_in_flight()},
          {"messages", outcome.messages}};
}

nlohmann::ordered_json json_of(const SimulatedOutcome& outcome, const std::vector<SimulatedOutcome>& all) {
  nlohmann::ordered_json answer = figures(outcome);
  answer["ranks"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < outcome.schedule.stages; ++rank) {
    const std::size_t at = static_cast<std::size_t>(rank);
    answer["ranks"].push_back({{"rank", rank},
                               {"busy_ms", outcome.occupation.busy[at]},
                               {"idle_ms", outcome.occupation.idle(rank)},
                               {"most_in_flight", outcome.in_flight[at]}});
  }
  answer["actions"] = nlohmann::ordered_json::array();
  for (const Event& event : outcome.events) {
    answer["actions"].push_back({{"rank", event.rank},
                                 {"pass", name_of(event.action.pass)},
                                 {"micro_batch", event.action.micro_batch},
                                 {"chunk", event.action.chunk},
                                 {"start_ms", event.start},
                                 {"end_ms", event.end}});
  }
  answer["comparison"] = nlohmann::ordered_json::array();
  for (const SimulatedOutcome& one : all) {
    const nlohmann::ordered_json refused{{"schedule", name_of(one.schedule.kind)}, {"refused", one.refusal}};
    answer["comparison"].push_back(one.refusal.empty() ? figures(one) : refused);
  }
  return answer;
}

}  // namespace

int plan_schedule(const PlanScheduleOptions& options) {
  try {
    check_options(options);
  } catch (const Error& error) {
    throw SharedError(error.code(), error.what());  // all ranks were given the same words: one says what is wrong
  }
  if (!is_printing_rank()) return 0;
  const std::filesystem::path picture = options.svg.empty() ? "" : output_file("--svg", options.svg, options.overwrite);
  const std::vector<SimulatedOutcome> all = all_outcomes(options);
  const SimulatedOutcome& outcome = all[static_cast<std::size_t>(pipeline::schedule_kind_from_name(options.schedule))];
  if (options.json) {
    fmt::print("{}\n", json_of(outcome, all).dump(2));
  } else {
    print_text(options, outcome, all);
  }
  if (options.svg.empty()) return 0;
  const std::string title =
      fmt::format("{}: {}, {} a rank, {}; bubble {}", name_of(outcome.schedule.kind), counted(options.stages, "stage"),
                  counted(options.chunks, "chunk"), counted(options.micro_batches, "micro-batch", "micro-batches"),
                  percent(outcome.occupation.bubble()));
  write_file_atomically(picture, draw_svg(outcome.events, title, "ms"));
  if (!options.json) fmt::print("\nDrawn in {}\n", options.svg);
  return 0;
}

}  // namespace cohort
