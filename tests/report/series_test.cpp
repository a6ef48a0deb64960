#include "report/series.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cohort::test {
namespace {

StepSeries ramp(Count points) {
  StepSeries series;
  for (Count i = 1; i <= points; ++i) series.add(i, static_cast<double>(i));
  return series;
}

TEST(Thinned, KeepsEndsAndExtremes) {
  StepSeries series = ramp(100'000);
  series.values[54'321] = 1e9;
  series.values[70'000] = -1e9;
  series.values[80'000] = std::numeric_limits<double>::quiet_NaN();
  const StepSeries thin = thinned(series, 1000);
  EXPECT_LE(thin.steps.size(), 1100u);
  EXPECT_EQ(thin.steps.front(), 1);
  EXPECT_EQ(thin.steps.back(), 100'000);
  EXPECT_TRUE(std::is_sorted(thin.steps.begin(), thin.steps.end()));
  EXPECT_EQ(std::count(thin.values.begin(), thin.values.end(), 1e9), 1);
  EXPECT_EQ(std::count(thin.values.begin(), thin.values.end(), -1e9), 1);
  EXPECT_TRUE(std::any_of(thin.values.begin(), thin.values.end(), [](double value) { return std::isnan(value); }));
}

TEST(Thinned, LeavesShortSeriesAsTheyAre) { EXPECT_EQ(thinned(ramp(10), 10).values, ramp(10).values); }

TEST(Smoothed, IsUnbiasedAndPassesOverWhatIsNotFinite) {
  StepSeries series;
  for (Count i = 1; i <= 50; ++i) series.add(i, i == 20 ? INFINITY : 3.0);
  const StepSeries smooth = smoothed(series);
  EXPECT_EQ(smooth.steps.size(), 49u);
  for (const double value : smooth.values) EXPECT_NEAR(value, 3.0, 1e-12);  // from the first value on
}

TEST(Averaged, HasMeansOfStretches) {
  EXPECT_EQ(averaged(ramp(6), 3).values, (std::vector<double>{1.5, 3.5, 5.5}));
  EXPECT_EQ(averaged(ramp(6), 3).steps, (std::vector<Count>{2, 4, 6}));
  EXPECT_EQ(averaged(ramp(2), 3).values, (std::vector<double>{1, 2}));
}

TEST(Accumulated, AddsUp) { EXPECT_EQ(accumulated(ramp(4)).values, (std::vector<double>{1, 3, 6, 10})); }

TEST(MedianOf, IsOfFiniteValues) {
  EXPECT_EQ(median_of({3, NAN, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(median_of({})));
}

}  // namespace
}  // namespace cohort::test
