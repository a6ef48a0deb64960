// The simulation of pipelines: its times obey the dependencies, the bubble is that of the formula, and faults planted in
// schedules are found.
#include "parallel/pipeline/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/pipeline/cases.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using pipeline::Action;
using pipeline::actions_of;
using pipeline::Costs;
using pipeline::Event;
using pipeline::Pass;
using pipeline::Schedule;
using pipeline::ScheduleKind;

constexpr Schedule kSimple{ScheduleKind::one_f_one_b, 4, 1, 8};
constexpr Schedule kChunked{ScheduleKind::interleaved, 4, 2, 8};

// Whole and half numbers: sums of them are exact, so that times can be compared with ==.
Costs equal_costs(const Schedule& schedule, double forward, double backward, double transfer = 0.0) {
  const std::size_t stages = static_cast<std::size_t>(schedule.virtual_stages());
  return {std::vector<double>(stages, forward), std::vector<double>(stages, backward), transfer};
}

Costs unequal_costs(const Schedule& schedule) {
  Costs costs = equal_costs(schedule, 1.0, 2.0, 0.5);
  for (std::size_t stage = 0; stage < costs.forward.size(); ++stage) {
    costs.forward[stage] += static_cast<double>(stage * 7 % 5);
    costs.backward[stage] += static_cast<double>(stage * 3 % 4);
  }
  return costs;
}

/// Each event by (pass, virtual stage, micro-batch).
std::map<std::tuple<Pass, int, int>, Event> by_place(const Schedule& schedule, const std::vector<Event>& events) {
  std::map<std::tuple<Pass, int, int>, Event> places;
  for (const Event& event : events) {
    places.insert(
        {{event.action.pass, schedule.virtual_stage({event.rank, event.action.chunk}), event.action.micro_batch}, event});
  }
  return places;
}

// Written apart from the simulation: no event starts before what it needs, none before the one before it on its rank, and each
// starts the moment that the last of these allows.
void expect_times_obey(const Schedule& schedule, const Costs& costs) {
  const std::vector<Event> events = simulate(schedule, costs);
  const auto places = by_place(schedule, events);
  ASSERT_EQ(places.size(), events.size());
  ASSERT_EQ(events.size(), static_cast<std::size_t>(2 * schedule.virtual_stages() * schedule.micro_batches));
  std::vector<double> free(static_cast<std::size_t>(schedule.stages));
  for (const auto& event : events) {
    const auto& [pass, micro_batch, chunk] = event.action;
    const int own = schedule.virtual_stage({event.rank, chunk});
    const double travel = schedule.stages > 1 ? costs.transfer : 0.0;
    double earliest = free[static_cast<std::size_t>(event.rank)];
    if (pass == Pass::forward && own > 0) {
      earliest = std::max(earliest, places.at({Pass::forward, own - 1, micro_batch}).end + travel);
    }
    if (pass == Pass::backward) earliest = std::max(earliest, places.at({Pass::forward, own, micro_batch}).end);
    if (pass == Pass::backward && own + 1 < schedule.virtual_stages()) {
      earliest = std::max(earliest, places.at({Pass::backward, own + 1, micro_batch}).end + travel);
    }
    const double cost = (pass == Pass::forward ? costs.forward : costs.backward)[static_cast<std::size_t>(own)];
    EXPECT_EQ(event.start, earliest);
    EXPECT_EQ(event.end, event.start + cost);
    free[static_cast<std::size_t>(event.rank)] = event.end;
  }
}

TEST(PipelineTimeline, TimesObeyTheDependencies) {
  for_each_schedule([](const Schedule& schedule) { expect_times_obey(schedule, equal_costs(schedule, 1.0, 2.0)); });
  for_each_schedule([](const Schedule& schedule) { expect_times_obey(schedule, unequal_costs(schedule)); });
}

TEST(PipelineTimeline, BubbleIsThatOfTheFormula) {
  for_each_schedule([](const Schedule& schedule) {
    for (const auto& [forward, backward] : {std::pair{1.0, 2.0}, {1.0, 1.0}, {3.0, 2.0}, {0.5, 4.0}}) {
      const std::vector<Event> events = simulate(schedule, equal_costs(schedule, forward, backward));
      const pipeline::Occupation occupation = occupation_of(events, schedule.stages);
      const double rounds = schedule.chunks * schedule.micro_batches;
      EXPECT_EQ(occupation.total, (rounds + schedule.stages - 1) * (forward + backward));
      for (const double busy : occupation.busy) EXPECT_EQ(busy, rounds * (forward + backward));
      EXPECT_NEAR(occupation.bubble(), bubble_formula(schedule), 1e-14);  // some roundings of numbers below 1
    }
  });
  EXPECT_DOUBLE_EQ(bubble_formula(kSimple), 3.0 / 11.0);
  EXPECT_DOUBLE_EQ(bubble_formula(kChunked), 3.0 / 19.0);
}

TEST(PipelineTimeline, MessagesDelayGpipeByTwoJourneys) {
  for (int stages = 1; stages <= 8; ++stages) {
    const Schedule schedule{ScheduleKind::gpipe, stages, 1, 5};
    const auto occupation = occupation_of(simulate(schedule, equal_costs(schedule, 1.0, 2.0, 0.25)), stages);
    EXPECT_EQ(occupation.total, 3.0 * (5 + stages - 1) + 2 * 0.25 * (stages - 1));
  }
}

TEST(PipelineTimeline, SlowStageKeepsTheOthersWaiting) {
  Costs costs = equal_costs(kSimple, 1.0, 2.0);
  costs.forward[3] = 2.0;
  costs.backward[3] = 4.0;
  const auto occupation = occupation_of(simulate(kSimple, costs), 4);
  // The slow rank is busy for 8 x 6; before it 3 forwards, after it 3 backwards.
  EXPECT_EQ(occupation.total, 3.0 + 48.0 + 6.0);
  EXPECT_EQ(occupation.idle(3), 9.0);
  EXPECT_EQ(occupation.idle(0), 57.0 - 24.0);
}

TEST(PipelineTimeline, OccupationOfMeasuredEvents) {
  const std::vector<Event> events{{1, {Pass::forward, 0, 0}, 103.0, 106.0}, {0, {Pass::forward, 0, 0}, 100.0, 102.0}};
  const auto occupation = pipeline::occupation_of(events, 2);
  EXPECT_EQ(occupation.total, 6.0);
  EXPECT_EQ(occupation.busy, (std::vector<double>{2.0, 3.0}));
  EXPECT_DOUBLE_EQ(occupation.bubble(), 7.0 / 12.0);
  EXPECT_EQ(pipeline::occupation_of({}, 2).bubble(), 0.0);
}

// Faults planted in good lists.
using Lists = std::vector<std::vector<Action>>;

Action& find(Lists& lists, std::size_t rank, const Action& action) {
  return *std::find(lists[rank].begin(), lists[rank].end(), action);
}

void remove(Lists& lists, std::size_t rank, const Action& action) { std::erase(lists[rank], action); }

void run(const Schedule& schedule, const Lists& lists) { simulate(schedule, lists, equal_costs(schedule, 1.0, 2.0)); }

TEST(PipelineFaults, MissingAndRepeatedActions) {
  Lists missing = actions_of_all(kSimple);
  remove(missing, 0, {Pass::backward, 7, 0});  // no other rank waits for it: only the count shows it
  EXPECT_ERROR(run(kSimple, missing), ExitCode::internal, "rank 0 lacks the backward of micro-batch 7");
  Lists repeated = actions_of_all(kSimple);
  repeated[2].push_back({Pass::backward, 3, 0});
  EXPECT_ERROR(run(kSimple, repeated), ExitCode::internal, "rank 2 has the backward of micro-batch 3, chunk 0 twice");
  Lists unknown = actions_of_all(kSimple);
  unknown[2].push_back({Pass::backward, 8, 0});
  EXPECT_ERROR(run(kSimple, unknown), ExitCode::internal, "micro-batch 8", "8 micro-batches");
  Lists short_of_a_rank = actions_of_all(kSimple);
  short_of_a_rank.pop_back();
  EXPECT_ERROR(run(kSimple, short_of_a_rank), ExitCode::internal, "3 lists", "4 ranks");
}

TEST(PipelineFaults, SwappedActions) {
  Lists backwards = actions_of_all(kSimple);
  std::swap(find(backwards, 1, {Pass::backward, 2, 0}), find(backwards, 1, {Pass::backward, 3, 0}));
  EXPECT_ERROR(run(kSimple, backwards), ExitCode::internal, "ranks 0 and 1 differ in the order of backwards", "micro-batch 2");
  Lists forwards = actions_of_all(kChunked);
  std::swap(find(forwards, 3, {Pass::forward, 3, 0}), find(forwards, 3, {Pass::forward, 0, 1}));
  EXPECT_ERROR(run(kChunked, forwards), ExitCode::internal, "ranks 0 and 3 differ in the order of forwards");
  // The same swap on all ranks: they agree, but gradients would be added up in another order than on one rank.
  Lists everywhere = actions_of_all(kSimple);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::swap(find(everywhere, rank, {Pass::backward, 2, 0}), find(everywhere, rank, {Pass::backward, 3, 0}));
  }
  EXPECT_ERROR(run(kSimple, everywhere), ExitCode::internal, "micro-batch 3", "where micro-batch 2 should come");
}

TEST(PipelineFaults, BackwardBeforeItsForwardIsADeadlock) {
  Lists lists = actions_of_all(kSimple);
  std::swap(lists[3][0], lists[3][1]);
  EXPECT_ERROR(run(kSimple, lists), ExitCode::internal, "deadlock",
               "rank 3 waits with action 0, the backward of micro-batch 0, chunk 0, for the forward of micro-batch 0");
}

// Each rank's list is possible by itself; together they wait for each other: rank 0 wants a gradient back before it sends the
// micro-batch that rank 1 needs for its turn.
TEST(PipelineFaults, TooShortAWarmUpIsADeadlock) {
  const Schedule schedule{ScheduleKind::one_f_one_b, 2, 1, 4};
  Lists lists = actions_of_all(schedule);
  lists[0] = actions_of(schedule, 1);  // F0 B0 F1 B1 ...: slow, but it works
  EXPECT_NO_THROW(run(schedule, lists));
  lists[1] = actions_of({ScheduleKind::gpipe, 2, 1, 4}, 1);  // all forwards first
  EXPECT_ERROR(run(schedule, lists), ExitCode::internal, "deadlock", "rank 0 waits with action 1", "rank 1 waits with action 1");
}

}  // namespace
}  // namespace cohort::test
