#include "pipeline/schedule.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort::pipeline {
namespace {

/// The `index`-th forward of every rank, or its `index`-th backward. Micro-batches go in groups of S: a group passes chunk after
/// chunk (backward: from the last to the first), and the first rank gets a group's first micro-batch back from the last rank just
/// when it has sent the group's last. With one chunk this is the order of the micro-batches.
Action nth(const Schedule& schedule, Pass pass, Count index) {
  const Count group_actions = Count{schedule.stages} * schedule.chunks;
  const Count group = index / group_actions;
  const Count within = index % group_actions;
  const int turn = static_cast<int>(within / schedule.stages);
  const int chunk = pass == Pass::forward ? turn : schedule.chunks - 1 - turn;
  return {pass, static_cast<int>(group * schedule.stages + within % schedule.stages), chunk};
}

/// Forwards before the first turn of one forward and one backward. A rank nearer to the end gets gradients back sooner.
Count warm_up(const Schedule& schedule, int rank) {
  const Count after = schedule.stages - 1 - rank;  // ranks behind this one
  const Count all = Count{schedule.micro_batches} * schedule.chunks;
  switch (schedule.kind) {
    case ScheduleKind::gpipe:
      return all;
    case ScheduleKind::one_f_one_b:
      return std::min(after, all);
    // The first group must have passed all chunks but the last; twice the ranks behind, so that messages have time to travel.
    case ScheduleKind::interleaved:
      return std::min(2 * after + Count{schedule.chunks - 1} * schedule.stages, all);
  }
  fail(ExitCode::internal, "pipeline schedule {} has no warm-up", static_cast<int>(schedule.kind));
}

void check_chunks(const Schedule& schedule) {
  if (schedule.kind == ScheduleKind::interleaved) {
    if (schedule.chunks < 2) {
      fail(ExitCode::config, "the interleaved schedule with {} a rank: it needs 2 or more; with 1 it would be 1f1b",
           counted(schedule.chunks, "chunk"));
    }
  } else if (schedule.chunks != 1) {
    fail(ExitCode::config, "schedule {} with {} chunks a rank: it has 1; the interleaved schedule has more",
         name_of(schedule.kind), schedule.chunks);
  }
}

void check_groups(const Schedule& schedule) {
  const int rest = schedule.micro_batches % schedule.stages;
  if (schedule.kind != ScheduleKind::interleaved || rest == 0) return;
  const Count below = schedule.micro_batches - rest;
  const Count above = below + schedule.stages;
  const std::string fitting = below == 0 ? std::to_string(above) : fmt::format("{} or {}", below, above);
  fail(ExitCode::config,
       "the interleaved schedule with {} on {}: they must be a multiple of the stages; take {}, or schedule "
       "1f1b",
       counted(schedule.micro_batches, "micro-batch", "micro-batches"), counted(schedule.stages, "stage"), fitting);
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
  }
  return "?";
}

std::string_view name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

ScheduleKind schedule_kind_from_name(std::string_view name) {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kScheduleKinds) {
    if (name == name_of(kind)) return kind;
    names.emplace_back(name_of(kind));
  }
  fail(ExitCode::config, "no pipeline schedule is called '{}': there are {}", name, join(names));
}

void check(const Schedule& schedule) {
  if (schedule.stages < 1) fail(ExitCode::config, "a pipeline of {} stages: the fewest is 1", schedule.stages);
  if (schedule.micro_batches < 1) {
    fail(ExitCode::config, "a pipeline step of {} micro-batches: the fewest is 1; {} keep {} busy", schedule.micro_batches,
         Count{4} * schedule.stages, counted(schedule.stages, "stage"));
  }
  if (schedule.chunks < 1) fail(ExitCode::config, "{} chunks a rank: the fewest is 1", schedule.chunks);
  const Count virtual_stages = Count{schedule.stages} * schedule.chunks;
  if (virtual_stages > std::numeric_limits<int>::max()) {
    fail(ExitCode::config, "{} x {} are {} virtual stages: more than any model has layers", counted(schedule.stages, "stage"),
         counted(schedule.chunks, "chunk"), virtual_stages);
  }
  check_chunks(schedule);
  check_groups(schedule);
}

std::vector<Action> actions_of(const Schedule& schedule, int rank) {
  const Count all = Count{schedule.micro_batches} * schedule.chunks;
  const Count ahead = warm_up(schedule, rank);
  std::vector<Action> actions;
  actions.reserve(static_cast<std::size_t>(2 * all));
  for (Count i = 0; i < ahead; ++i) actions.push_back(nth(schedule, Pass::forward, i));
  for (Count i = ahead; i < all; ++i) {
    actions.push_back(nth(schedule, Pass::forward, i));
    actions.push_back(nth(schedule, Pass::backward, i - ahead));
  }
  for (Count i = all - ahead; i < all; ++i) actions.push_back(nth(schedule, Pass::backward, i));
  return actions;
}

Count most_in_flight(const Schedule& schedule, int rank) {
  return std::min(warm_up(schedule, rank) + 1, Count{schedule.micro_batches} * schedule.chunks);
}

Count most_in_flight(const std::vector<Action>& actions) {
  Count now = 0;
  Count most = 0;
  for (const Action& action : actions) {
    now += action.pass == Pass::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<std::size_t> places_of(const std::vector<Action>& actions) {
  constexpr std::pair kFree{-1, -1};
  std::vector<std::pair<int, int>> in_place;  // micro-batch and chunk
  std::vector<std::size_t> places;
  for (const Action& action : actions) {
    const bool forward = action.pass == Pass::forward;
    const std::pair passing{action.micro_batch, action.chunk};
    const auto found = std::find(in_place.begin(), in_place.end(), forward ? kFree : passing);
    const auto place = static_cast<std::size_t>(found - in_place.begin());
    if (found == in_place.end()) in_place.push_back(kFree);
    in_place[place] = forward ? passing : kFree;
    places.push_back(place);
  }
  return places;
}

double bubble_formula(const Schedule& schedule) {
  const double waiting = schedule.stages - 1;
  return waiting / (static_cast<double>(schedule.chunks) * schedule.micro_batches + waiting);
}

}  // namespace cohort::pipeline
