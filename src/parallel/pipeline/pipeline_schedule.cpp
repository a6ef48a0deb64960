#include "parallel/pipeline/pipeline_schedule.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"

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

std::map<ScheduleKind, OwnOrder>& own_orders() {
  static std::map<ScheduleKind, OwnOrder> orders;
  return orders;
}

/// Null if there is none.
const OwnOrder* own_order(const Schedule& schedule) {
  const auto found = own_orders().find(schedule.kind);
  return found == own_orders().end() ? nullptr : &found->second;
}

}  // namespace

void use_own_order(ScheduleKind kind, OwnOrder order) {
  if (order)
    own_orders()[kind] = std::move(order);
  else
    own_orders().erase(kind);
}

std::string_view name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

std::vector<Action> actions_of(const Schedule& schedule, int rank) {
  if (const OwnOrder* order = own_order(schedule)) return (*order)(schedule, rank);
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
  if (own_order(schedule) != nullptr) return most_in_flight(actions_of(schedule, rank));
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
