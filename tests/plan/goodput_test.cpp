#include "plan/goodput.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort::test {
namespace {

constexpr double kHour = 3600.0;

// Young 1974: for saves much shorter than the time between failures.
TEST(Goodput, SavesEveryRootOfTwoSavesTimesFailures) {
  const Goodput goodput = best_goodput(1000, {.rank_seconds = 50'000 * kHour, .save_seconds = 30.0, .restart_seconds = 300.0});
  EXPECT_DOUBLE_EQ(goodput.failure_seconds, 50.0 * kHour);
  EXPECT_NEAR(goodput.interval_seconds, std::sqrt(2.0 * 30.0 * 50.0 * kHour), 30.0);
  // To first order: saves, half an interval and a restart for each failure.
  const double lost = 30.0 / goodput.interval_seconds + (goodput.interval_seconds / 2.0 + 300.0) / goodput.failure_seconds;
  EXPECT_NEAR(goodput.share, 1.0 - lost, 0.002);
}

TEST(Goodput, IsBestAtThatInterval) {
  for (const double save : {1.0, 60.0, 1200.0}) {
    const Failures failures{.rank_seconds = 50'000 * kHour, .save_seconds = save, .restart_seconds = 600.0};
    const Goodput best = best_goodput(16384, failures);
    for (const double factor : {0.7, 1.4})
      EXPECT_LT(goodput_share(best.failure_seconds, factor * best.interval_seconds, failures), best.share)
          << save << " " << factor;
  }
}

// The Llama 3 paper (section 3.3.4): 16,384 GPUs, an unexpected interruption each 3 hours, more than 90 % of the time spent
// training.
TEST(Goodput, OfSixteenThousandGpusIsAbout90PerCent) {
  const Goodput goodput = best_goodput(16384, {.rank_seconds = 50'000 * kHour, .save_seconds = 60.0, .restart_seconds = 600.0});
  EXPECT_NEAR(goodput.failure_seconds / kHour, 3.05, 0.1);
  EXPECT_GT(goodput.share, 0.8);
  EXPECT_LT(goodput.share, 0.95);
}

}  // namespace
}  // namespace cohort::test
