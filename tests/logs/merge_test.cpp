#include "logs/merge.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>

#include "logs/log_texts.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::append;
using test::line;

std::string read_all(LogMerge& merge) {
  std::string text;
  for (LogRecord record; merge.next(record);) text += record.text;
  return text;
}

TEST(LogMerge, OrdersByTimeThenRank) {
  const test::TemporaryFolder run;
  append(run.path(), 0, line(1, 0, "a") + line(3, 0, "d") + line(3, 0, "e"));
  append(run.path(), 10, line(3, 10, "g"));
  append(run.path(), 2, line(2, 2, "b\n  c") + line(3, 2, "f") + line(4, 2, "h"));
  const LogSelection all;
  LogMerge merge(run.path(), all, false);
  EXPECT_EQ(read_all(merge), line(1, 0, "a") + line(2, 2, "b\n  c") + line(3, 0, "d") + line(3, 0, "e") + line(3, 2, "f") +
                                 line(3, 10, "g") + line(4, 2, "h"));
}

TEST(LogMerge, AClockThatWentBackKeepsTheOrderOfTheLog) {
  const test::TemporaryFolder run;
  append(run.path(), 0, line(5, 0, "a") + line(2, 0, "b") + line(8, 0, "d"));
  append(run.path(), 1, line(4, 1, "before") + line(6, 1, "c"));
  const LogSelection all;
  LogMerge merge(run.path(), all, false);
  EXPECT_EQ(read_all(merge), line(4, 1, "before") + line(5, 0, "a") + line(2, 0, "b") + line(6, 1, "c") + line(8, 0, "d"));
}

TEST(LogMerge, ReadsOnlyWhatIsWanted) {
  const test::TemporaryFolder run;
  for (int rank = 0; rank < 4; ++rank) append(run.path(), rank, line(rank, rank, "step 1") + line(9, rank, "step 2"));
  const LogSelection some{.ranks = {{1, 2}}, .until = TimeOrStep{.step = 1}};
  LogMerge merge(run.path(), some, false);
  EXPECT_EQ(read_all(merge), line(1, 1, "step 1") + line(2, 2, "step 1"));
}

TEST(LogMerge, IgnoresWhatIsNoLog) {
  const test::TemporaryFolder run;
  EXPECT_TRUE(ranks_with_logs(run.path()).empty());
  append(run.path(), 3, line(1, 3, "a"));
  std::filesystem::create_directories(run / "logs/rank_4");  // no log in it yet
  for (const char* name : {"rank_", "rank_x", "rank_1x", "rank_-1", "node_1", "rank_99999999999"}) {
    std::filesystem::create_directories(run / "logs" / name / "train.log");
  }
  EXPECT_EQ(ranks_with_logs(run.path()), (std::vector<int>{3}));
}

TEST(LogMerge, FindsWhatComesLater) {
  const test::TemporaryFolder run;
  const LogSelection all;
  LogMerge merge(run.path(), all, true);
  EXPECT_EQ(read_all(merge), "");
  append(run.path(), 0, line(1, 0, "a") + "2025-03-01T12");
  merge.look_again();
  EXPECT_EQ(read_all(merge), line(1, 0, "a"));
  append(run.path(), 0, line(2, 0, "b").substr(13));
  append(run.path(), 1, line(1.5, 1, "new"));
  merge.look_again();
  EXPECT_ANY_THROW(merge.look_again());  // a rank is entered once
  EXPECT_EQ(read_all(merge), line(1.5, 1, "new") + line(2, 0, "b"));
}

TEST(LogMerge, WhatHasEndedStaysSo) {
  const test::TemporaryFolder run;
  const LogSelection until{.until = TimeOrStep{.step = 1}};
  append(run.path(), 0, line(1, 0, "step 1") + line(2, 0, "step 2"));
  LogMerge merge(run.path(), until, true);
  EXPECT_EQ(read_all(merge), line(1, 0, "step 1"));
  append(run.path(), 0, line(3, 0, "from step 0 again"));
  merge.look_again();
  EXPECT_EQ(read_all(merge), "");
}

// More logs than a process may have files open; random times; all lines come, in order.
TEST(LogMerge, TakesThousandsOfRanksWithFewOpenFiles) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 32;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const test::TemporaryFolder run;
  std::mt19937 random(1);
  constexpr int kRanks = 1500;
  std::vector<std::pair<double, int>> expected;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<double> times(3);
    for (double& time : times) time = static_cast<double>(random() % 59000) / 1000.0;
    std::sort(times.begin(), times.end());
    std::string text;
    for (const double time : times) {
      text += line(time, rank, "x");
      expected.emplace_back(time, rank);
    }
    append(run.path(), rank, text);
  }
  std::sort(expected.begin(), expected.end());
  std::string wanted;
  for (const auto& [time, rank] : expected) wanted += line(time, rank, "x");
  const LogSelection all;
  LogMerge merge(run.path(), all, false);
  EXPECT_TRUE(read_all(merge) == wanted);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace cohort
