// The loss scale after every kind of step, worked out by hand from the rules in the header.
#include <gtest/gtest.h>

#include <vector>

#include "optim/loss_scale.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

LossScale scale_of_8(Count growth_interval = 3) {
  return LossScale({.initial = 8.0, .minimum = 2.0, .growth_interval = growth_interval});
}

TEST(LossScale, StartsAtTheInitialValue) {
  const LossScale scale = scale_of_8();
  EXPECT_TRUE(scale.active());
  EXPECT_EQ(scale.scale(), 8.0);
  EXPECT_EQ(scale.good_steps(), 0);
}

// Each step's outcome ('o' overflowed, '.' not) with the scale and the count after it.
TEST(LossScale, DoublesAfterTheIntervalAndHalvesAtOverflow) {
  struct After {
    char outcome;
    double scale;
    Count good_steps;
  };
  const std::vector<After> steps{
      {'.', 8, 1},  {'.', 8, 2},  {'.', 16, 0},              // the third good step in a row doubles
      {'.', 16, 1}, {'.', 16, 2}, {'o', 8, 0},               // an overflow halves, and the count begins anew
      {'.', 8, 1},  {'o', 4, 0},  {'o', 2, 0},               // two in a row halve twice, down to the minimum itself
      {'.', 2, 1},  {'.', 2, 2},  {'.', 4, 0},  {'.', 4, 1}  // and up again
  };
  LossScale scale = scale_of_8();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_TRUE(scale.update(steps[i].outcome == 'o'));
    ASSERT_EQ(scale.scale(), steps[i].scale) << "after step " << i;
    ASSERT_EQ(scale.good_steps(), steps[i].good_steps) << "after step " << i;
  }
}

TEST(LossScale, IntervalOfOneDoublesAtEachGoodStep) {
  LossScale scale = scale_of_8(1);
  for (const double expected : {16.0, 32.0, 64.0}) {
    EXPECT_TRUE(scale.update(false));
    EXPECT_EQ(scale.scale(), expected);
  }
}

TEST(LossScale, DefaultIntervalCountsExactly) {
  LossScale scale(LossScaleOptions{});
  for (int step = 0; step < 1999; ++step) EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.scale(), 65536.0);
  EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.scale(), 131072.0);
}

// Gradients that are all zero never overflow: the factor must stay a number that fp32 holds.
TEST(LossScale, DoesNotGrowWithoutEnd) {
  LossScale scale = scale_of_8(1);
  for (int step = 0; step < 1000; ++step) EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.scale(), 16777216.0);
  LossScale large({.initial = 1e9, .minimum = 1.0, .growth_interval = 1});
  EXPECT_TRUE(large.update(false));
  EXPECT_EQ(large.scale(), 1e9) << "neither grows nor falls to the limit of growth";
}

TEST(LossScale, BelowTheMinimumTrainingStopsWithAdvice) {
  LossScale scale = scale_of_8();
  EXPECT_TRUE(scale.update(true));
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale(), 2.0) << "the minimum itself is allowed";
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(scale.scale(), 2.0);
  for (const char* part : {"scaled by only 2", "min_loss_scale = 2", "learning_rate", "bf16"})
    EXPECT_NE(scale.at_minimum_in_words().find(part), std::string::npos) << part;
}

// A minimum that halving does not hit: 8, 4, and not 2 < 3.
TEST(LossScale, MinimumBetweenTwoHalvings) {
  LossScale scale({.initial = 8.0, .minimum = 3.0, .growth_interval = 3});
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale(), 4.0);
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(scale.scale(), 4.0);
}

// Saved after any number of steps and restored into a new one, it goes on as if nothing had happened.
TEST(LossScale, GoesOnFromACheckpoint) {
  const std::vector<bool> overflowed{false, false, true, false, false, false, false, true, false, false, false};
  for (std::size_t saved_after = 0; saved_after <= overflowed.size(); ++saved_after) {
    LossScale whole = scale_of_8();
    for (std::size_t i = 0; i < saved_after; ++i) EXPECT_TRUE(whole.update(overflowed[i]));
    LossScale resumed = scale_of_8();
    resumed.restore(whole.scale(), whole.good_steps());
    for (std::size_t i = saved_after; i < overflowed.size(); ++i) {
      EXPECT_TRUE(whole.update(overflowed[i]));
      EXPECT_TRUE(resumed.update(overflowed[i]));
      ASSERT_EQ(resumed.scale(), whole.scale()) << "saved after " << saved_after << ", step " << i;
      ASSERT_EQ(resumed.good_steps(), whole.good_steps()) << "saved after " << saved_after << ", step " << i;
    }
  }
}

TEST(LossScale, NoneIsOneForever) {
  LossScale none = LossScale::none();
  EXPECT_FALSE(none.active());
  for (int step = 0; step < 10; ++step) {
    static_cast<void>(none.update(step % 2 == 0));
    EXPECT_EQ(none.scale(), 1.0);
    EXPECT_EQ(none.good_steps(), 0);
  }
  none.restore(65536.0, 7);  // a checkpoint of an fp16 run that goes on in another type
  EXPECT_EQ(none.scale(), 1.0);
}

// A rule of somebody else decides alone, until it is taken back; types that need no scaling are refused meanwhile.
TEST(LossScale, FollowsARuleOfSomebodyElse) {
  LossScale scale = scale_of_8();
  use_own_loss_scale_rule([](double& factor, Count& good_steps, const LossScaleOptions& options, bool overflowed) {
    factor = overflowed ? options.minimum : options.largest();
    ++good_steps;
    return !overflowed;
  });
  EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.scale(), 16777216.0);
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(scale.scale(), 2.0);
  EXPECT_EQ(scale.good_steps(), 2);
  EXPECT_ERROR(LossScale::none(), ExitCode::usage, "fp16");
  use_own_loss_scale_rule({});
  EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.scale(), 4.0);  // the third good step
  EXPECT_FALSE(LossScale::none().active());
}

TEST(LossScale, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(LossScale({.initial = 1.0, .minimum = 2.0}), ExitCode::internal, "minimum 2");
  EXPECT_ERROR(LossScale({.initial = 1.0, .minimum = 0.0}), ExitCode::internal, "minimum 0");
  EXPECT_ERROR(LossScale({.growth_interval = 0}), ExitCode::internal, "interval 0");
}

}  // namespace
}  // namespace cohort::test
