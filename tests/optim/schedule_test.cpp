// The learning rate at each step, against values worked out by hand from the formulas in the header.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "optim/schedule.hpp"

namespace cohort::test {
namespace {

constexpr double kPeak = 0.5;
constexpr double kRounding = 1e-15;  // of a few operations on numbers below 1

ScheduleSection schedule(const char* kind, Count warmup = 4, Count decay = 10) {
  return {.kind = kind, .warmup_steps = warmup, .decay_steps = decay, .final_fraction = 0.1};
}

TEST(Schedule, WarmupRisesInEqualStepsAndNeverStartsAtZero) {
  for (const char* kind : {"constant", "linear", "cosine"}) {
    const double expected[] = {0.125, 0.25, 0.375, 0.5};  // W - 1 = 3 has the peak
    for (Count step = 0; step < 4; ++step) EXPECT_NEAR(learning_rate(schedule(kind), kPeak, step), expected[step], kRounding);
    EXPECT_NEAR(learning_rate(schedule(kind), kPeak, 4), kPeak, kRounding) << "W: the fall begins at the peak";
  }
}

TEST(Schedule, WithoutWarmupTheFirstStepHasThePeak) {
  for (const char* kind : {"constant", "linear", "cosine"}) {
    EXPECT_NEAR(learning_rate(schedule(kind, 0), kPeak, 0), kPeak, kRounding) << kind;
  }
}

TEST(Schedule, OneStepOfWarmupHasThePeak) {
  EXPECT_NEAR(learning_rate(schedule("cosine", 1), kPeak, 0), kPeak, kRounding);
  EXPECT_NEAR(learning_rate(schedule("cosine", 1), kPeak, 1), kPeak, kRounding);
}

TEST(Schedule, Linear) {
  // From 0.5 at step 4 to 0.05 at step 10: 0.075 a step.
  const double expected[] = {0.5, 0.425, 0.35, 0.275, 0.2, 0.125, 0.05, 0.05};
  for (Count i = 0; i < 8; ++i) EXPECT_NEAR(learning_rate(schedule("linear"), kPeak, 4 + i), expected[i], kRounding) << 4 + i;
}

TEST(Schedule, Cosine) {
  // 0.05 + 0.45 (1 + cos(pi i / 6)) / 2 for i = 0 .. 6; the cosines are 1, sqrt(3)/2, 1/2, 0, -1/2, -sqrt(3)/2, -1.
  const double root = std::sqrt(3.0) / 2.0;
  const double cosines[] = {1.0, root, 0.5, 0.0, -0.5, -root, -1.0};
  for (Count i = 0; i < 7; ++i) {
    EXPECT_NEAR(learning_rate(schedule("cosine"), kPeak, 4 + i), 0.05 + 0.225 * (1.0 + cosines[i]), kRounding) << 4 + i;
  }
}

TEST(Schedule, Constant) {
  for (const Count step : {4, 9, 10, 11, 1'000'000}) EXPECT_EQ(learning_rate(schedule("constant"), kPeak, step), kPeak);
}

TEST(Schedule, StaysAtTheFinalRate) {
  for (const char* kind : {"linear", "cosine"}) {
    EXPECT_GT(learning_rate(schedule(kind), kPeak, 9), 0.05 + 1e-3) << "D - 1 is above the final rate";
    for (const Count step : {10, 11, 1'000'000}) EXPECT_NEAR(learning_rate(schedule(kind), kPeak, step), 0.05, kRounding) << kind;
  }
}

TEST(Schedule, NeverRisesAfterTheWarmup) {
  for (const char* kind : {"linear", "cosine"}) {
    for (Count step = 20; step < 1100; ++step) {
      EXPECT_LE(learning_rate(schedule(kind, 20, 1000), kPeak, step + 1), learning_rate(schedule(kind, 20, 1000), kPeak, step));
    }
  }
}

// No division by D - W = 0: nothing lies between the warm-up and the final rate.
TEST(Schedule, WarmupMayLastToTheEnd) {
  for (const char* kind : {"linear", "cosine"}) {
    EXPECT_NEAR(learning_rate(schedule(kind, 10, 10), kPeak, 9), kPeak, kRounding);
    EXPECT_NEAR(learning_rate(schedule(kind, 10, 10), kPeak, 10), 0.05, kRounding);
  }
}

}  // namespace
}  // namespace cohort::test
