#include "plan/suggest.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "planned_run.hpp"

namespace cohort::test {
namespace {

RunConfig run() { return reference_config(planned_run(1)); }

TEST(Suggestions, FitAndAreSorted) {
  const Suggestions all = suggest_layouts(run(), 8, 0, usual_speed(DeviceKind::cpu));
  ASSERT_GT(all.fitting.size(), 10u);
  for (std::size_t i = 0; i < all.fitting.size(); ++i) {
    const Suggestion& one = all.fitting[i];
    EXPECT_EQ(one.layout.ranks, 8);
    EXPECT_EQ(one.layout.config.train.global_batch, 48);
    EXPECT_GE(one.memory, all.least_memory);
    EXPECT_GE(one.seconds, all.fitting[i > 0 ? i - 1 : 0].seconds);
  }
  const Bytes limit = all.least_memory + all.least_memory / 2;
  const Suggestions some = suggest_layouts(run(), 8, limit, usual_speed(DeviceKind::cpu));
  EXPECT_LT(some.fitting.size(), all.fitting.size());
  EXPECT_FALSE(some.fitting.empty());
  for (const Suggestion& one : some.fitting) EXPECT_LE(one.memory, limit);
  EXPECT_TRUE(suggest_layouts(run(), 8, 1, usual_speed(DeviceKind::cpu)).fitting.empty());
}

// The slower the links, the more a layout is worth that sends little.
TEST(Suggestions, WeighMessagesAgainstWork) {
  const auto best = [](double bytes_per_second) {
    return suggest_layouts(run(), 8, 0, {1e12, bytes_per_second}).fitting.front();
  };
  EXPECT_LT(best(1e3).moved, best(1e12).moved);
  EXPECT_EQ(best(1e12).bubble, 0.0);
}

TEST(Suggestions, SayWhyNot) {
  const Suggestions none = suggest_layouts(run(), 5, 0, usual_speed(DeviceKind::cpu));
  const auto names = [](const char* word) {
    return [=](const std::string& reason) { return reason.find(word) != std::string::npos; };
  };
  EXPECT_TRUE(none.fitting.empty());  // five divides neither the batch, nor layers, heads or tokens
  EXPECT_EQ(none.least_memory, 0);
  EXPECT_TRUE(std::any_of(none.refused.begin(), none.refused.end(), names("parallel.tp = 5")));
}

}  // namespace
}  // namespace cohort::test
