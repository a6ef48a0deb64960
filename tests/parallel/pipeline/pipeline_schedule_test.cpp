// Pipeline schedules as lists: what the engine relies on, and the numbers in closed form.
#include "parallel/pipeline/pipeline_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/pipeline/cases.hpp"
#include "parallel/pipeline/timeline.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using pipeline::Action;
using pipeline::actions_of;
using pipeline::check;
using pipeline::most_in_flight;
using pipeline::Pass;
using pipeline::Schedule;
using pipeline::ScheduleKind;

constexpr ScheduleKind kGpipe = ScheduleKind::gpipe;
constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;
constexpr ScheduleKind kInterleaved = ScheduleKind::interleaved;

std::string str(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", action.pass == Pass::forward ? "F" : "B", action.micro_batch);
    if (action.chunk > 0) text += std::string(static_cast<std::size_t>(action.chunk), '\'');
  }
  return text;
}

// Worked out by hand from the figures of the papers (Narayanan et al. 2021, figures 3 and 4, on fewer micro-batches).
TEST(PipelineSchedule, ListsAreThoseOfThePapers) {
  EXPECT_EQ(str(actions_of({kGpipe, 3, 1, 4}, 1)), "F0 F1 F2 F3 B0 B1 B2 B3");
  EXPECT_EQ(str(actions_of({k1f1b, 4, 1, 6}, 0)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(str(actions_of({k1f1b, 4, 1, 6}, 2)), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  EXPECT_EQ(str(actions_of({k1f1b, 4, 1, 6}, 3)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  EXPECT_EQ(str(actions_of({k1f1b, 4, 1, 2}, 0)), "F0 F1 B0 B1");
  EXPECT_EQ(str(actions_of({kInterleaved, 2, 2, 4}, 0)), "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3");
  EXPECT_EQ(str(actions_of({kInterleaved, 2, 2, 4}, 1)), "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3");
}

TEST(PipelineSchedule, EachPassOnceAndInOneOrderOnAllRanks) {
  for_each_schedule([](const Schedule& schedule) { check(schedule, actions_of_all(schedule)); });
}

/// (pass, sender, receiver) -> (micro-batch, virtual stage of the sender), in the order of one side.
using Messages = std::map<std::tuple<Pass, int, int>, std::vector<std::pair<int, int>>>;

TEST(PipelineSchedule, MessagesOfOnePassArriveInTheOrderOfSending) {
  for_each_schedule([](const Schedule& schedule) {
    Messages sent;
    Messages received;
    for (int rank = 0; rank < schedule.stages; ++rank) {
      for (const Action& action : actions_of(schedule, rank)) {
        const int own = schedule.virtual_stage({rank, action.chunk});
        const int step = action.pass == Pass::forward ? 1 : -1;
        const auto exists = [&](int stage) { return stage >= 0 && stage < schedule.virtual_stages(); };
        if (exists(own + step)) {
          sent[{action.pass, rank, schedule.place_of(own + step).rank}].push_back({action.micro_batch, own});
        }
        if (exists(own - step)) {
          received[{action.pass, schedule.place_of(own - step).rank, rank}].push_back({action.micro_batch, own - step});
        }
      }
    }
    EXPECT_EQ(sent, received);
  });
}

TEST(PipelineSchedule, ActivationsInFlightAsCounted) {
  for_each_schedule([](const Schedule& schedule) {
    for (int rank = 0; rank < schedule.stages; ++rank) {
      EXPECT_EQ(most_in_flight(schedule, rank), most_in_flight(actions_of(schedule, rank))) << "rank " << rank;
    }
  });
  EXPECT_EQ(most_in_flight({kGpipe, 4, 1, 8}, 3), 8);
  EXPECT_EQ(most_in_flight({k1f1b, 4, 1, 8}, 0), 4);
  EXPECT_EQ(most_in_flight({k1f1b, 4, 1, 8}, 3), 1);
  EXPECT_EQ(most_in_flight({k1f1b, 4, 1, 2}, 0), 2);
  EXPECT_EQ(most_in_flight({kInterleaved, 4, 2, 8}, 0), 11);
  EXPECT_EQ(most_in_flight({kInterleaved, 4, 2, 8}, 3), 5);
}

TEST(PipelineSchedule, PlacesAndVirtualStagesAreABijection) {
  const Schedule schedule{kInterleaved, 3, 4, 3};
  EXPECT_EQ(schedule.virtual_stage({2, 1}), 5);
  for (int stage = 0; stage < schedule.virtual_stages(); ++stage) {
    EXPECT_EQ(schedule.virtual_stage(schedule.place_of(stage)), stage);
  }
}

TEST(PipelineSchedule, LargeMeshes) {
  const Schedule schedule{k1f1b, 16384, 1, 4};
  for (const int rank : {0, 8192, 16383}) {
    EXPECT_EQ(actions_of(schedule, rank).size(), 8U);
    EXPECT_EQ(most_in_flight(schedule, rank), rank == 16383 ? 1 : 4);
  }
}

TEST(PipelineSchedule, NamesAreThoseOfRunFiles) {
  for (const ScheduleKind kind : pipeline::kScheduleKinds) {
    EXPECT_EQ(pipeline::schedule_kind_from_name(name_of(kind)), kind);
  }
  EXPECT_ERROR(pipeline::schedule_kind_from_name("1F1B"), ExitCode::config, "'1F1B'", "gpipe, 1f1b, interleaved");
}

TEST(PipelineSchedule, RefusesWithTheNearestThatFits) {
  EXPECT_ERROR(check({k1f1b, 0, 1, 8}), ExitCode::config, "0 stages", "at least 1");
  EXPECT_ERROR(check({k1f1b, 4, 1, 0}), ExitCode::config, "0 micro-batches", "at least 1");
  EXPECT_ERROR(check({k1f1b, 4, 0, 8}), ExitCode::config, "0 chunks");
  EXPECT_ERROR(check({k1f1b, 4, 2, 8}), ExitCode::config, "1f1b with 2 chunks");
  EXPECT_ERROR(check({kGpipe, 4, 2, 8}), ExitCode::config, "gpipe with 2 chunks");
  EXPECT_ERROR(check({kInterleaved, 4, 1, 8}), ExitCode::config, "2 or more");
  EXPECT_ERROR(check({kInterleaved, 4, 2, 10}), ExitCode::config, "10 micro-batches on 4 stages", "8 or 12");
  EXPECT_ERROR(check({kInterleaved, 4, 2, 3}), ExitCode::config, "use 4,");
  EXPECT_ERROR(check({kInterleaved, 65536, 65536, 65536}), ExitCode::config, "4294967296 virtual stages");
}

// A place is free when it is taken, given back by the same micro-batch, and there are no more of them than are in flight.
TEST(Schedule, PlacesHoldOneMicroBatchAtATime) {
  for (const Schedule& schedule : {Schedule{kGpipe, 3, 1, 5}, Schedule{k1f1b, 4, 1, 9}, Schedule{kInterleaved, 2, 3, 8}}) {
    for (int rank = 0; rank < schedule.stages; ++rank) {
      const std::vector<Action> actions = actions_of(schedule, rank);
      const std::vector<std::size_t> places = places_of(actions);
      ASSERT_EQ(places.size(), actions.size());
      std::map<std::size_t, std::pair<int, int>> held;
      for (std::size_t i = 0; i < actions.size(); ++i) {
        ASSERT_LT(static_cast<Count>(places[i]), most_in_flight(schedule, rank));
        const std::pair passing{actions[i].micro_batch, actions[i].chunk};
        if (actions[i].pass == Pass::forward) {
          EXPECT_TRUE(held.emplace(places[i], passing).second);
        } else {
          EXPECT_EQ(held.at(places[i]), passing);
          held.erase(places[i]);
        }
      }
      EXPECT_TRUE(held.empty());
    }
  }
}

}  // namespace
}  // namespace cohort::test
