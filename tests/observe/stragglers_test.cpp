#include "observe/stragglers.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort {
namespace {

std::vector<std::string> hosts(int ranks) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back("node" + std::to_string(rank / 2));
  return names;
}

/// Ten steps of a second each on all ranks; what each rank worked in them.
std::string news(Stragglers& stragglers, Count first_step, const std::vector<double>& own_work) {
  for (Count step = first_step; step < first_step + 10; ++step) stragglers.add(step, 1.0, own_work[0]);
  return stragglers.compare(own_work).news;
}

Stragglers warmed_up(int ranks, int stages = 1) {
  Stragglers stragglers(hosts(ranks), stages);
  stragglers.add(1, 50.0, 40.0);
  return stragglers;
}

TEST(Stragglers, NamesTheRankItsHostAndTheSteps) {
  Stragglers stragglers = warmed_up(4);
  EXPECT_EQ(news(stragglers, 20, {0.17, 0.17, 0.31, 0.18}),
            "rank 2 on node1 is slow: its own work took 0.31 s per step where the median is 0.17 s (steps 20 to 29)");
}

TEST(Stragglers, TheFirstStepDoesNotCount) {
  Stragglers stragglers(hosts(2), 1);
  EXPECT_EQ(stragglers.steps(), 0);
  stragglers.add(1, 50.0, 40.0);
  EXPECT_EQ(stragglers.steps(), 0);
  stragglers.add(2, 1.0, 0.5);
  stragglers.add(3, 1.0, 0.7);
  EXPECT_EQ(stragglers.steps(), 2);
  EXPECT_DOUBLE_EQ(stragglers.own_work(), 0.6);
  EXPECT_EQ(stragglers.compare(std::vector<double>{0.6, 0.6}).news, "");
  EXPECT_EQ(stragglers.steps(), 0);
  EXPECT_EQ(stragglers.own_work(), 0.0);
}

TEST(Stragglers, GivesTheFiguresForMetrics) {
  Stragglers stragglers = warmed_up(4);
  stragglers.add(2, 1.0, 0.2);
  const auto comparison = stragglers.compare(std::vector<double>{0.2, 0.5, 0.3, 0.1});
  EXPECT_EQ(comparison.slowest, 1);
  EXPECT_EQ(comparison.min, 0.1);
  EXPECT_EQ(comparison.median, 0.2);
  EXPECT_EQ(comparison.max, 0.5);
}

TEST(Stragglers, SmallDifferencesAreNone) {
  Stragglers a = warmed_up(3);
  EXPECT_EQ(news(a, 2, {0.5, 0.5, 0.64}), "");  // 1.28 times
  EXPECT_NE(news(a, 12, {0.5, 0.5, 0.66}), "");
  Stragglers b = warmed_up(3);
  EXPECT_EQ(news(b, 2, {0.04, 0.04, 0.08}), "");  // 4 % of the step
  EXPECT_NE(news(b, 12, {0.04, 0.04, 0.1}), "");
  Stragglers c = warmed_up(3);
  c.add(2, 0.1, 0.04);  // one short step: 60 ms more
  EXPECT_EQ(c.compare(std::vector<double>{0.04, 0.04, 0.1}).news, "");
  c.add(3, 0.2, 0.04);
  EXPECT_NE(c.compare(std::vector<double>{0.04, 0.04, 0.18}).news, "");
}

TEST(Stragglers, OfTwoRanksOneCanBeSlow) {
  Stragglers stragglers = warmed_up(2);
  EXPECT_NE(news(stragglers, 2, {0.3, 0.5}).find("rank 1 on node0 is slow"), std::string::npos);
}

TEST(Stragglers, ToldOnceUntilItChanges) {
  Stragglers stragglers = warmed_up(3);
  EXPECT_NE(news(stragglers, 10, {0.2, 0.4, 0.2}), "");
  EXPECT_EQ(news(stragglers, 20, {0.2, 0.4, 0.2}), "");
  EXPECT_EQ(news(stragglers, 30, {0.2, 0.5, 0.2}), "");   // a little slower
  EXPECT_EQ(news(stragglers, 40, {0.2, 0.25, 0.2}), "");  // near the limit
  EXPECT_EQ(news(stragglers, 50, {0.2, 0.4, 0.2}), "");
  EXPECT_NE(news(stragglers, 60, {0.2, 0.7, 0.2}).find("0.7 s"), std::string::npos);  // much slower
  EXPECT_EQ(news(stragglers, 70, {0.2, 0.2, 0.2}), "rank 1 on node0 keeps up again (steps 70 to 79)");
  EXPECT_EQ(news(stragglers, 80, {0.2, 0.2, 0.2}), "");
  EXPECT_NE(news(stragglers, 90, {0.2, 0.4, 0.2}), "");
}

TEST(Stragglers, AnotherRankIsTold) {
  Stragglers stragglers = warmed_up(5);
  EXPECT_NE(news(stragglers, 10, {0.2, 0.2, 0.6, 0.2, 0.2}).find("rank 2 "), std::string::npos);
  EXPECT_NE(news(stragglers, 20, {0.2, 0.2, 0.6, 0.4, 0.2}).find("rank 3 on node1 is slow"), std::string::npos);
  EXPECT_EQ(news(stragglers, 30, {0.2, 0.2, 0.5, 0.5, 0.2}), "");  // both are known
}

TEST(Stragglers, ASlowNodeIsOneMessage) {
  Stragglers stragglers = warmed_up(5);
  const std::string text = news(stragglers, 10, {0.2, 0.2, 0.5, 0.6, 0.2});
  EXPECT_NE(text.find("rank 3 on node1 is slow"), std::string::npos) << text;
  EXPECT_NE(text.find("1 more is slow, too"), std::string::npos) << text;
}

TEST(Stragglers, StagesOfAPipelineDiffer) {
  // Ranks 0 and 1 are the first stage, 2 and 3 the last, which has more to do.
  Stragglers stragglers = warmed_up(4, 2);
  EXPECT_EQ(news(stragglers, 10, {0.2, 0.2, 0.6, 0.6}), "");
  EXPECT_NE(news(stragglers, 20, {0.2, 0.4, 0.6, 0.6}).find("rank 1 on node0 is slow"), std::string::npos);
}

}  // namespace
}  // namespace cohort
