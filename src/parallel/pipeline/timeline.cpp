#include "parallel/pipeline/timeline.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort::pipeline {
namespace {

std::string text_of(const Action& action) {
  return fmt::format("{} of micro-batch {}, chunk {}", name_of(action.pass), action.micro_batch, action.chunk);
}

std::size_t index_of(Pass pass) { return static_cast<std::size_t>(pass); }

class Simulation {
 public:
  Simulation(const Schedule& schedule, const std::vector<std::vector<Action>>& actions, const Costs& costs)
      : schedule_(schedule), actions_(actions), costs_(costs), ranks_(actions.size()) {
    const std::size_t passes =
        static_cast<std::size_t>(schedule.virtual_stages()) * static_cast<std::size_t>(schedule.micro_batches);
    for (std::vector<double>& ends : ends_) ends.assign(passes, kNever);
  }

  std::vector<Event> run() {
    // A rank that went on may have made what its neighbours wait for. The order in which ranks are visited changes no time.
    for (int rank = schedule_.stages - 1; rank >= 0; --rank) visit_later(rank);
    while (!to_visit_.empty()) {
      const int rank = to_visit_.back();
      to_visit_.pop_back();
      state(rank).to_be_visited = false;
      if (!go_on(rank)) continue;
      visit_later((rank + schedule_.stages - 1) % schedule_.stages);
      visit_later((rank + 1) % schedule_.stages);
    }
    check_finished();
    std::vector<Event> events;
    for (const RankState& rank : ranks_) events.insert(events.end(), rank.events.begin(), rank.events.end());
    return events;
  }

 private:
  static constexpr double kNever = -1.0;

  struct RankState {
    std::vector<Event> events;  // as many as actions done
    bool to_be_visited = false;
  };

  /// A pass of one micro-batch through one virtual stage, that an action needs.
  struct Need {
    Pass pass;
    int virtual_stage;
  };

  RankState& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const std::vector<Action>& actions(int rank) const { return actions_[static_cast<std::size_t>(rank)]; }

  double& end_of(Pass pass, int virtual_stage, int micro_batch) {
    const Count place = Count{virtual_stage} * schedule_.micro_batches + micro_batch;
    return ends_[index_of(pass)][static_cast<std::size_t>(place)];
  }

  std::vector<Need> needs_of(int rank, const Action& action) const {
    const int own = schedule_.virtual_stage({rank, action.chunk});
    std::vector<Need> needs;
    if (action.pass == Pass::forward && own > 0) needs.push_back({Pass::forward, own - 1});
    if (action.pass == Pass::backward) needs.push_back({Pass::forward, own});
    if (action.pass == Pass::backward && own + 1 < schedule_.virtual_stages()) needs.push_back({Pass::backward, own + 1});
    return needs;
  }

  std::optional<Need> missing_need(int rank, const Action& action) {
    for (const Need& need : needs_of(rank, action)) {
      if (end_of(need.pass, need.virtual_stage, action.micro_batch) == kNever) return need;
    }
    return std::nullopt;
  }

  void visit_later(int rank) {
    if (std::exchange(state(rank).to_be_visited, true)) return;
    to_visit_.push_back(rank);
  }

  /// Executes what the rank can; whether there was anything.
  bool go_on(int rank) {
    std::vector<Event>& events = state(rank).events;
    const std::size_t before = events.size();
    while (events.size() < actions(rank).size()) {
      const Action& action = actions(rank)[events.size()];
      if (missing_need(rank, action)) break;
      execute(rank, action);
    }
    return events.size() > before;
  }

  void execute(int rank, const Action& action) {
    std::vector<Event>& events = state(rank).events;
    double start = events.empty() ? 0.0 : events.back().end;
    for (const Need& need : needs_of(rank, action)) {
      const bool from_afar = schedule_.place_of(need.virtual_stage).rank != rank;
      start = std::max(start, end_of(need.pass, need.virtual_stage, action.micro_batch) + (from_afar ? costs_.transfer : 0.0));
    }
    const int own = schedule_.virtual_stage({rank, action.chunk});
    const std::vector<double>& cost = action.pass == Pass::forward ? costs_.forward : costs_.backward;
    const double end = start + cost[static_cast<std::size_t>(own)];
    end_of(action.pass, own, action.micro_batch) = end;
    events.push_back({rank, action, start, end});
  }

  void check_finished() {
    constexpr std::size_t kMostNamed = 4;
    std::vector<std::string> waiting;
    std::size_t count = 0;
    for (int rank = 0; rank < schedule_.stages; ++rank) {
      const std::size_t done = state(rank).events.size();
      if (done == actions(rank).size()) continue;
      if (++count > kMostNamed) continue;
      const Action& action = actions(rank)[done];
      const Need need = missing_need(rank, action).value();
      const Place place = schedule_.place_of(need.virtual_stage);
      waiting.push_back(fmt::format("rank {} waits with action {}, the {}, for the {} on rank {}", rank, done, text_of(action),
                                    text_of({need.pass, action.micro_batch, place.chunk}), place.rank));
    }
    if (count == 0) return;
    const std::string more =
        count > kMostNamed ? fmt::format("; and {}", counted(static_cast<Count>(count - kMostNamed), "more rank")) : "";
    fail(ExitCode::internal, "deadlock of the pipeline schedule: {}{}", join(waiting, "; "), more);
  }

  const Schedule& schedule_;
  const std::vector<std::vector<Action>>& actions_;
  const Costs& costs_;
  std::vector<RankState> ranks_;
  std::vector<int> to_visit_;
  std::vector<double> ends_[2];  // by pass: [virtual stage, micro-batch]
};

void check_once(const Schedule& schedule, int rank, const std::vector<Action>& actions) {
  std::vector<int> times(2 * static_cast<std::size_t>(schedule.chunks) * static_cast<std::size_t>(schedule.micro_batches));
  const auto place_of = [&](const Action& action) {
    const Count row = static_cast<Count>(index_of(action.pass)) * schedule.chunks + action.chunk;
    return static_cast<std::size_t>(row * schedule.micro_batches + action.micro_batch);
  };
  for (const Action& action : actions) {
    if (action.chunk < 0 || action.chunk >= schedule.chunks || action.micro_batch < 0 ||
        action.micro_batch >= schedule.micro_batches) {
      fail(ExitCode::internal, "pipeline rank {} has the {}: there are {} chunks and {} micro-batches", rank, text_of(action),
           schedule.chunks, schedule.micro_batches);
    }
    if (++times[place_of(action)] > 1) fail(ExitCode::internal, "pipeline rank {} has the {} twice", rank, text_of(action));
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      for (int micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
        const Action action{pass, micro_batch, chunk};
        if (times[place_of(action)] == 0) fail(ExitCode::internal, "pipeline rank {} lacks the {}", rank, text_of(action));
      }
    }
  }
}

std::vector<Action> of_pass(Pass pass, const std::vector<Action>& actions) {
  std::vector<Action> those;
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(those),
               [&](const Action& action) { return action.pass == pass; });
  return those;
}

void check_ascending(const Schedule& schedule, int rank, const std::vector<Action>& of_one_pass) {
  std::vector<int> next(static_cast<std::size_t>(schedule.chunks));
  for (const Action& action : of_one_pass) {
    const int wanted = next[static_cast<std::size_t>(action.chunk)]++;
    if (action.micro_batch != wanted) {
      fail(ExitCode::internal, "pipeline rank {} has the {} where micro-batch {} should come: sums would depend on the schedule",
           rank, text_of(action), wanted);
    }
  }
}

}  // namespace

std::vector<std::vector<Action>> actions_of_all(const Schedule& schedule) {
  std::vector<std::vector<Action>> actions;
  actions.reserve(static_cast<std::size_t>(schedule.stages));
  for (int rank = 0; rank < schedule.stages; ++rank) actions.push_back(actions_of(schedule, rank));
  return actions;
}

void check(const Schedule& schedule, const std::vector<std::vector<Action>>& actions) {
  if (static_cast<Count>(actions.size()) != schedule.stages) {
    fail(ExitCode::internal, "{} lists of actions for a pipeline of {} ranks", actions.size(), schedule.stages);
  }
  for (int rank = 0; rank < schedule.stages; ++rank) check_once(schedule, rank, actions[static_cast<std::size_t>(rank)]);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const std::vector<Action> first = of_pass(pass, actions.front());
    check_ascending(schedule, 0, first);
    for (int rank = 1; rank < schedule.stages; ++rank) {
      const std::vector<Action> other = of_pass(pass, actions[static_cast<std::size_t>(rank)]);
      const auto [here, there] = std::mismatch(first.begin(), first.end(), other.begin());
      if (here == first.end()) continue;
      fail(ExitCode::internal, "pipeline ranks 0 and {} differ in the order of {}s: {} and {}", rank, name_of(pass),
           text_of(*here), text_of(*there));
    }
  }
}

std::vector<Event> simulate(const Schedule& schedule, const std::vector<std::vector<Action>>& actions, const Costs& costs) {
  const std::size_t stages = static_cast<std::size_t>(schedule.virtual_stages());
  COHORT_CHECK(costs.forward.size() == stages && costs.backward.size() == stages, "{} and {} costs for {} virtual stages",
               costs.forward.size(), costs.backward.size(), stages);
  check(schedule, actions);
  return Simulation(schedule, actions, costs).run();
}

std::vector<Event> simulate(const Schedule& schedule, const Costs& costs) {
  return simulate(schedule, actions_of_all(schedule), costs);
}

double Occupation::bubble() const {
  double busy_in_all = 0.0;
  for (const double time : busy) busy_in_all += time;
  const double all = total * static_cast<double>(busy.size());
  return all > 0.0 ? 1.0 - busy_in_all / all : 0.0;
}

Occupation occupation_of(const std::vector<Event>& events, int ranks) {
  Occupation occupation{0.0, std::vector<double>(static_cast<std::size_t>(ranks))};
  if (events.empty()) return occupation;
  double first = events.front().start;
  double last = events.front().end;
  for (const Event& event : events) {
    first = std::min(first, event.start);
    last = std::max(last, event.end);
    occupation.busy.at(static_cast<std::size_t>(event.rank)) += event.end - event.start;
  }
  occupation.total = last - first;
  return occupation;
}

}  // namespace cohort::pipeline
