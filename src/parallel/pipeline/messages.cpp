#include "parallel/pipeline/messages.hpp"

#include <algorithm>

#include "parallel/pipeline/timeline.hpp"

namespace cohort::pipeline {
namespace {

std::optional<Place> neighbour(const Schedule& schedule, int rank, const Action& action, int step) {
  const int stage = schedule.virtual_stage({rank, action.chunk}) + (action.pass == Pass::forward ? step : -step);
  if (stage < 0 || stage >= schedule.virtual_stages()) return std::nullopt;
  return schedule.place_of(stage);
}

struct Made {
  double time;
  Receive receive;
};

/// The messages to a rank, by the time when they were made.
std::vector<Made> messages_to(const Schedule& schedule, int rank, const std::vector<Event>& events) {
  std::vector<Made> messages;
  for (const Event& event : events) {
    const std::optional<Place> target = target_of(schedule, event.rank, event.action);
    if (!target || target->rank != rank || event.rank == rank) continue;
    messages.push_back({event.end, {{event.action.pass, event.action.micro_batch, target->chunk}, event.rank}});
  }
  std::stable_sort(messages.begin(), messages.end(), [](const Made& a, const Made& b) { return a.time < b.time; });
  return messages;
}

}  // namespace

std::optional<Place> source_of(const Schedule& schedule, int rank, const Action& action) {
  return neighbour(schedule, rank, action, -1);
}

std::optional<Place> target_of(const Schedule& schedule, int rank, const Action& action) {
  return neighbour(schedule, rank, action, 1);
}

std::vector<Receives> receives_of(const Schedule& schedule, int rank) {
  const auto stages = static_cast<std::size_t>(schedule.virtual_stages());
  const std::vector<Event> events = simulate(schedule, {std::vector<double>(stages, 1.0), std::vector<double>(stages, 2.0), 0.0});
  const std::vector<Made> messages = messages_to(schedule, rank, events);
  std::vector<Receives> plan;
  auto next = messages.begin();
  for (const Event& event : events) {
    if (event.rank != rank) continue;
    Receives& receives = plan.emplace_back();
    for (; next != messages.end() && next->time <= event.start; ++next) receives.before.push_back(next->receive);
    for (; next != messages.end() && next->time < event.end; ++next) receives.during.push_back(next->receive);
  }
  return plan;
}

Count messages_on_their_way(const Schedule& schedule) { return schedule.chunks == 1 ? 3 : 6; }

Count most_messages(const Schedule& schedule, int rank) {
  Count inputs = 0, most = 0;
  for (const Action& action : actions_of(schedule, rank)) {
    const std::optional<Place> source = source_of(schedule, rank, {Pass::forward, action.micro_batch, action.chunk});
    if (!source || source->rank == rank) continue;
    inputs += action.pass == Pass::forward ? 1 : -1;
    most = std::max(most, inputs);
  }
  return most + messages_on_their_way(schedule);
}

Count sends_of(const Schedule& schedule, int rank) {
  Count sends = 0;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const std::optional<Place> target = target_of(schedule, rank, {pass, 0, chunk});
      if (target && target->rank != rank) sends += schedule.micro_batches;
    }
  }
  return sends;
}

}  // namespace cohort::pipeline
