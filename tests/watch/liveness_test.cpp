// When rank 0 takes a job for lost, on a clock of the test's own.
#include "watch/liveness.hpp"

#include <gtest/gtest.h>

namespace cohort::test {
namespace {

constexpr double kLimit = 10.0;
using Link = RankView::Link;

// Ranks 0, 1 and 2 are heard each second until `end`; those in `moving` do something each time.
void pass_time(Liveness& liveness, double begin, double end, const std::vector<int>& heard, const std::vector<int>& moving) {
  static std::uint64_t progress = 100;
  for (double now = begin; now <= end; now += 1.0) {  // NOLINT(bugprone-float-loop-counter): whole seconds
    ++progress;
    for (const int rank : heard) {
      const bool moves = std::find(moving.begin(), moving.end(), rank) != moving.end();
      liveness.heard(rank, moves ? progress : 7, now);
    }
  }
}

TEST(Liveness, AJobThatMovesIsNotLost) {
  Liveness liveness(3, 0.0);
  pass_time(liveness, 0.0, 100.0, {0, 1, 2}, {0, 1, 2});
  EXPECT_FALSE(liveness.is_lost(kLimit, 100.5));
}

// Rank 1 works for a minute while the others wait for it.
TEST(Liveness, OneRankThatMovesIsEnough) {
  Liveness liveness(3, 0.0);
  pass_time(liveness, 0.0, 60.0, {0, 1, 2}, {1});
  EXPECT_FALSE(liveness.is_lost(kLimit, 60.5));
}

TEST(Liveness, NothingMoves) {
  Liveness liveness(3, 0.0);
  pass_time(liveness, 0.0, 5.0, {0, 1, 2}, {0, 1, 2});
  pass_time(liveness, 6.0, 15.0, {0, 1, 2}, {});
  EXPECT_FALSE(liveness.is_lost(kLimit, 15.0));
  EXPECT_TRUE(liveness.is_lost(kLimit, 16.5));
  EXPECT_EQ(liveness.link(1, kLimit, 16.5), Link::heard) << "it speaks, and does nothing";
  EXPECT_NEAR(liveness.seconds_still(16.5), 10.5, 1e-9);
}

TEST(Liveness, ASilentRank) {
  Liveness liveness(3, 0.0);
  pass_time(liveness, 0.0, 5.0, {0, 1, 2}, {0, 1, 2});
  pass_time(liveness, 6.0, 16.0, {0, 1}, {0, 1});
  EXPECT_TRUE(liveness.is_lost(kLimit, 16.0));
  EXPECT_EQ(liveness.link(2, kLimit, 16.0), Link::silent);
  EXPECT_EQ(liveness.link(1, kLimit, 16.0), Link::heard);
}

TEST(Liveness, ARankThatEndsWithoutAWordIsLostAtOnce) {
  Liveness liveness(3, 0.0);
  liveness.left(1, false);
  EXPECT_TRUE(liveness.is_lost(kLimit, 0.1));
  EXPECT_EQ(liveness.link(1, kLimit, 0.1), Link::gone);
}

TEST(Liveness, WhoLeftInOrderIsNotMissed) {
  Liveness liveness(3, 0.0);
  liveness.left(1, true);
  pass_time(liveness, 0.0, 30.0, {0, 2}, {0, 2});
  EXPECT_FALSE(liveness.is_lost(kLimit, 30.0));
  EXPECT_EQ(liveness.link(1, kLimit, 30.0), Link::heard);
  liveness.left(0, true);
  liveness.left(2, true);
  EXPECT_FALSE(liveness.is_lost(kLimit, 1000.0)) << "all have left: nothing has to move";
}

TEST(Liveness, ASuspendedJobIsPardoned) {
  Liveness liveness(3, 0.0);
  liveness.pardon(3600.0);
  EXPECT_FALSE(liveness.is_lost(kLimit, 3605.0));
  EXPECT_TRUE(liveness.is_lost(kLimit, 3611.0)) << "but it has to go on";
}

}  // namespace
}  // namespace cohort::test
