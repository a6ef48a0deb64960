// exp for vector loops against the C library's in double precision.
#include "ops/fast_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cohort::ops {
namespace {

constexpr double kUlp = 0x1.0p-23;  // of a number just above a power of two: the largest, relative to it

TEST(FastExp, IsWithinTwoUlp) {
  double worst = 0.0;
  double where = 0.0;
  for (int i = 0; i <= 1'757'000; ++i) {
    const float x = -87.3f + static_cast<float>(i) * 1e-4f;
    if (x > 88.37f) break;
    const double error = std::abs(fast_exp(x) / std::exp(static_cast<double>(x)) - 1.0);
    if (!(error <= worst)) {  // also for NaN
      worst = error;
      where = x;
    }
  }
  EXPECT_LE(worst, 2.0 * kUlp) << "at " << where;
}

TEST(FastExp, EndsOfItsRange) {
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
  for (const float low : {-87.3f, -88.0f, -1e4f, -std::numeric_limits<float>::infinity()}) {
    EXPECT_GT(fast_exp(low), 0.0f) << low;
    EXPECT_LT(fast_exp(low), 2e-38f) << low;
  }
  for (const float high : {88.37f, 88.5f, 89.0f, 1e4f, std::numeric_limits<float>::infinity()}) {
    EXPECT_GT(fast_exp(high), 2.3e38f) << high;
    EXPECT_TRUE(std::isfinite(fast_exp(high))) << high;  // clamped to what exp(88.37) is
  }
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Sigmoid, IsTheLogisticFunction) {
  for (int hundredths = -9000; hundredths <= 9000; ++hundredths) {
    const float x = 0.01f * static_cast<float>(hundredths);
    const double expected = 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
    // 1 + exp and the quotient are rounded once each, on top of exp; below 1.2e-38 the result may be 0.
    EXPECT_NEAR(sigmoid(x), expected, 3.0 * kUlp * expected + 1.2e-38) << x;
  }
}

}  // namespace
}  // namespace cohort::ops
