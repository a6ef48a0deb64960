#include "observe/timers.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

// A clock that the test moves. Whole seconds are exact in double, so results are compared exactly.
double timer_now = 0.0;
double timer_clock() { return timer_now; }

TEST(StepTimers, CountsScopes) {
  StepTimers timers(timer_clock);
  timers.begin_step();
  {
    const auto scope = timers.scope(Phase::forward);
    timer_now += 2;
  }
  timer_now += 1;  // in no phase
  {
    const auto scope = timers.scope(Phase::optimizer);
    timer_now += 4;
  }
  {
    const auto scope = timers.scope(Phase::forward);
    timer_now += 8;
  }
  EXPECT_EQ(timers.seconds(Phase::forward), 10);
  EXPECT_EQ(timers.seconds(Phase::optimizer), 4);
  EXPECT_EQ(timers.seconds(Phase::backward), 0);
  EXPECT_EQ(timers.step_seconds(), 15);
}

// What rates are made of: neither a validation nor a save makes training slower.
TEST(StepTimers, TrainingIsTheStepWithoutValidationsAndSaves) {
  StepTimers timers(timer_clock);
  timers.begin_step();
  timer_now += 1;
  for (const Phase phase : {Phase::checkpoint, Phase::forward, Phase::validation}) {
    const auto scope = timers.scope(phase);
    timer_now += 8;
  }
  EXPECT_EQ(timers.step_seconds(), 25);
  EXPECT_EQ(timers.training_seconds(), 9);
  timers.begin_step();
  EXPECT_EQ(timers.training_seconds(), 0);
}

TEST(StepTimers, AnInnerScopeStopsTheOuterOne) {
  StepTimers timers(timer_clock);
  timers.begin_step();
  {
    const auto backward = timers.scope(Phase::backward);
    timer_now += 1;
    {
      const auto communication = timers.scope(Phase::communication);
      timer_now += 2;
      {
        const auto again = timers.scope(Phase::backward);  // recomputation, say
        timer_now += 4;
      }
      timer_now += 8;
    }
    timer_now += 16;
  }
  EXPECT_EQ(timers.seconds(Phase::backward), 1 + 4 + 16);
  EXPECT_EQ(timers.seconds(Phase::communication), 2 + 8);
}

TEST(StepTimers, OwnWorkIsWithoutWaits) {
  static double waited = 0.0;
  StepTimers timers(timer_clock, [] { return waited; });
  timers.begin_step();
  {
    const auto backward = timers.scope(Phase::backward);
    timer_now += 1;
    waited += 0.5;  // inside a layer, as tensor parallelism does
    {
      const auto communication = timers.scope(Phase::communication);
      timer_now += 8;
      waited += 6;
    }
    timer_now += 16;
  }
  waited += 32;  // in no phase
  timer_now += 32;
  for (const Phase phase : {Phase::device, Phase::validation, Phase::checkpoint}) {
    const auto scope = timers.scope(phase);
    timer_now += 64;
    waited += 1;
  }
  EXPECT_EQ(timers.own_work(), 1 - 0.5 + 8 - 6 + 16);
  EXPECT_EQ(timers.exposed(), 0.5 + 6 + 32 + 1) << "also between phases, but not in validations and saves";
  EXPECT_EQ(timers.exposed_share(), timers.exposed() / timers.training_seconds());
  waited += 4;  // by now
  EXPECT_EQ(timers.exposed(), 43.5);
  timers.set_exposed(2.0);  // by the device
  waited += 0.25;
  EXPECT_EQ(timers.exposed(), 2.25);
  timers.begin_step();
  EXPECT_EQ(timers.own_work(), 0);
  EXPECT_EQ(timers.exposed(), 0);
}

TEST(StepTimers, EachStepStartsAtZero) {
  StepTimers timers(timer_clock);
  {
    const auto scope = timers.scope(Phase::data);
    timer_now += 2;
  }
  timers.begin_step();
  EXPECT_EQ(timers.seconds(Phase::data), 0);
  EXPECT_EQ(timers.step_seconds(), 0);
  const auto scope = timers.scope(Phase::data);
  EXPECT_ERROR(timers.begin_step(), ExitCode::internal, "data");
}

TEST(StepTimers, PhasesHaveTheirNames) {
  EXPECT_EQ(name_of(Phase::data), "data");
  EXPECT_EQ(name_of(Phase::communication), "communication");
  EXPECT_EQ(name_of(Phase::checkpoint), "checkpoint");
}

}  // namespace
}  // namespace cohort
