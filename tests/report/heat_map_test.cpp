#include "report/heat_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace cohort {
namespace {

TEST(HeatMap, KeepsShortRunsAsTheyAre) {
  HeatMap map;
  EXPECT_TRUE(map.empty());
  for (Count step = 10; step <= 2000; step += 10) EXPECT_FALSE(map.add(step, {static_cast<double>(step), NAN}));
  const auto columns = map.columns();
  ASSERT_EQ(columns.size(), HeatMap::kColumns);
  EXPECT_EQ(columns[7].first_step, 80);
  EXPECT_EQ(columns[7].last_step, 80);
  EXPECT_EQ(columns[7].values[0], 80.0f);
  EXPECT_TRUE(std::isnan(columns[7].values[1]));
}

// Every step is in one column, in order, and a peak is never lost.
TEST(HeatMap, OfLongRunsKeepsEveryPeak) {
  for (const Count steps : {201, 400, 401, 799, 12'345}) {
    HeatMap map;
    const Count peak = steps / 3;
    for (Count step = 1; step <= steps; ++step) map.add(step, {step == peak ? 9.0 : 1.0, step % 2 == 0 ? NAN : 2.0});
    const auto columns = map.columns();
    EXPECT_LE(columns.size(), HeatMap::kColumns) << steps;
    EXPECT_GT(columns.size(), HeatMap::kColumns / 2 - 1) << steps;
    Count next = 1, peaks = 0;
    for (const HeatMap::Column& column : columns) {
      EXPECT_EQ(column.first_step, next) << steps;
      next = column.last_step + 1;
      if (column.values[0] != 9.0f) continue;
      ++peaks;
      EXPECT_TRUE(column.first_step <= peak && peak <= column.last_step) << steps;
    }
    EXPECT_EQ(next, steps + 1);
    EXPECT_EQ(peaks, 1) << steps;
  }
}

TEST(HeatMap, StartsAnewWithOtherRowsAndWhereARunWentBack) {
  HeatMap map;
  for (Count step = 1; step <= 10; ++step) map.add(step, {1.0});
  EXPECT_TRUE(map.add(6, {2.0}));
  ASSERT_EQ(map.columns().size(), 6);
  EXPECT_EQ(map.columns().back().values[0], 2.0f);
  EXPECT_FALSE(map.add(7, {1.0, 2.0}));
  EXPECT_EQ(map.columns().size(), 1);
  EXPECT_EQ(map.rows(), 2);
  for (Count step = 8; step <= 2000; ++step) map.add(step, {1.0, 2.0});
  EXPECT_TRUE(map.add(1, {1.0, 2.0}));
  EXPECT_EQ(map.columns().size(), 1);
}

}  // namespace
}  // namespace cohort
