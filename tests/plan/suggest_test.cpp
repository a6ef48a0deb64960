#include "plan/suggest.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/scaling_curve.hpp"
#include "planned_run.hpp"

namespace cohort::test {
namespace {

RunConfig run() { return reference_config(planned_run(1)); }

PlannedMachine cpus(Bytes memory = 0, int ranks_per_node = 8) { return {usual_cpu_profile(), ranks_per_node, memory}; }

TEST(Suggestions, FitAndAreSorted) {
  const Suggestions all = suggest_layouts(run(), 8, cpus());
  ASSERT_GT(all.fitting.size(), 10u);
  EXPECT_TRUE(all.too_large.empty());
  Bytes least = all.fitting.front().memory;
  for (std::size_t i = 0; i < all.fitting.size(); ++i) {
    const Suggestion& one = all.fitting[i];
    EXPECT_EQ(one.layout.ranks, 8);
    EXPECT_EQ(one.layout.config.train.global_batch, 48);
    EXPECT_GE(one.time.seconds, all.fitting[i > 0 ? i - 1 : 0].time.seconds);
    EXPECT_FALSE(words_of_split(one.time.split).empty());
    least = std::min(least, one.memory);
  }
  const Bytes limit = least + least / 2;
  const Suggestions some = suggest_layouts(run(), 8, cpus(limit));
  EXPECT_EQ(some.fitting.size() + some.too_large.size(), all.fitting.size());
  EXPECT_FALSE(some.fitting.empty());
  for (const Suggestion& one : some.fitting) EXPECT_LE(one.memory, limit);
  for (const Suggestion& one : some.too_large) EXPECT_GT(one.memory, limit);
  const Suggestions none = suggest_layouts(run(), 8, cpus(1));
  EXPECT_TRUE(none.fitting.empty());
  EXPECT_EQ(none.too_large.front().memory, least);
}

// The slower the links, the more a layout is worth that sends little.
TEST(Suggestions, WeighMessagesAgainstWork) {
  const auto best = [](double bytes_per_second) {
    PlannedMachine machine = cpus();
    machine.profile.node.bytes_per_second = bytes_per_second;
    return suggest_layouts(run(), 8, machine).fitting.front();
  };
  EXPECT_LT(best(1e5).moved, best(1e12).moved);
}

TEST(Suggestions, KeepTensorParallelismInsideANode) {
  const auto most = [](int ranks_per_node) {
    Count tp = 1;
    for (const Suggestion& one : suggest_layouts(run(), 8, cpus(0, ranks_per_node)).fitting)
      tp = std::max(tp, one.layout.config.parallel.tp);
    return tp;
  };
  EXPECT_EQ(most(8), 4);  // as many as there are heads
  EXPECT_EQ(most(2), 2);
}

TEST(Suggestions, SayWhyNot) {
  const Suggestions none = suggest_layouts(run(), 5, cpus());
  const auto names = [](const char* word) {
    return [=](const std::string& reason) { return reason.find(word) != std::string::npos; };
  };
  EXPECT_TRUE(none.fitting.empty());  // five divides neither the batch, nor layers, heads or tokens
  EXPECT_TRUE(none.too_large.empty());
  EXPECT_TRUE(std::any_of(none.refused.begin(), none.refused.end(), names("parallel.tp = 5")));
}

// Whatever the layout is, the curve passes through it.
TEST(Scaling, IsKnownOfEveryLayout) {
  const PlannedMachine machine = cpus();
  for (const Suggestion& one : suggest_layouts(run(), 4, machine).fitting) {
    const ScalingCurve curve = scaling_curve(run(), one, machine);
    for (const auto* points : {&curve.weak, &curve.strong}) {
      const auto same = std::find_if(points->begin(), points->end(), [](const ScalingPoint& point) { return point.ranks == 4; });
      ASSERT_NE(same, points->end()) << one.layout.name;
      EXPECT_DOUBLE_EQ(same->time.seconds, one.time.seconds) << one.layout.name;
      EXPECT_EQ(same->memory, one.memory) << one.layout.name;
    }
  }
}

TEST(Scaling, KeepsTheLayoutAndAddsReplicas) {
  const PlannedMachine machine = cpus();
  const Suggestion best = suggest_layouts(run(), 4, machine).fitting.front();
  const ScalingCurve curve = scaling_curve(run(), best, machine);
  ASSERT_GT(curve.weak.size(), 10u);
  EXPECT_EQ(curve.weak.back().ranks, kMostRanksOfScaling);
  EXPECT_DOUBLE_EQ(curve.weak.front().efficiency, 1.0);
  for (std::size_t i = 1; i < curve.weak.size(); ++i) {
    EXPECT_GT(curve.weak[i].ranks, curve.weak[i - 1].ranks);
    EXPECT_GT(curve.weak[i].global_batch, curve.weak[i - 1].global_batch);
    EXPECT_LE(curve.weak[i].efficiency, 1.02);
  }
  for (const ScalingPoint& point : curve.strong) EXPECT_EQ(point.global_batch, 48);
  EXPECT_LE(curve.strong.back().ranks, 48 * best.layout.config.parallel.pp * best.layout.config.parallel.tp);
}

}  // namespace
}  // namespace cohort::test
