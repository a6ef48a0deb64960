#include "report/trace_timeline.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::vector<TracedSpan> track() {
  return {{0.0, 100.0, "step", "step 1"},
          {10.0, 40.0, "phase", "forward"},
          {11.0, 39.0, "micro_batch", "forward 2", 2},
          {20.0, 30.0, "wait", "wait tp all_reduce"},
          {40.0, 90.0, "phase", "backward"},
          {50.0, 60.0, "phase", "communication"},
          {50.0, 60.0, "wait", "wait dp all_reduce"}};
}

using Times = std::vector<std::pair<std::string, double>>;

TEST(TraceTimeline, PiecesFollowOneAnother) {
  const std::vector<TimelinePiece> pieces = pieces_of(track(), 0.0, 100.0);
  const std::vector<TimelinePiece> expected{{10, 11, "forward", -1}, {11, 20, "forward", 2},  {20, 30, "waiting", -1},
                                            {30, 39, "forward", 2},  {39, 40, "forward", -1}, {40, 50, "backward", -1},
                                            {50, 60, "waiting", -1}, {60, 90, "backward", -1}};
  ASSERT_EQ(pieces.size(), expected.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].begin, expected[i].begin) << i;
    EXPECT_EQ(pieces[i].end, expected[i].end) << i;
    EXPECT_EQ(pieces[i].what, expected[i].what) << i;
    EXPECT_EQ(pieces[i].micro_batch, expected[i].micro_batch) << i;
  }
}

TEST(TraceTimeline, PhasesAddUpToTheStep) {
  const Times seconds = phase_seconds(track(), 0.0, 100.0);
  EXPECT_EQ(seconds, (Times{{"other", 20.0}, {"forward", 30.0}, {"backward", 40.0}, {"communication", 10.0}}));
}

TEST(TraceTimeline, AWindowCutsWhatReachesBeyondIt) {
  EXPECT_EQ(phase_seconds(track(), 25.0, 55.0), (Times{{"forward", 15.0}, {"backward", 10.0}, {"communication", 5.0}}));
}

// A device's track has no phases.
TEST(TraceTimeline, MicroBatchesOfADeviceAreNamedByTheirPass) {
  const std::vector<TimelinePiece> pieces =
      pieces_of({{0.0, 10.0, "micro_batch", "backward 4", 4}, {2.0, 3.0, "stall", "wait"}}, 0.0, 10.0);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].what, "backward");
  EXPECT_EQ(pieces[0].micro_batch, 4);
  EXPECT_EQ(pieces[1].what, "waiting");
}

TEST(TraceTimeline, IsThinnedToWhatAPictureShows) {
  Timeline timeline{.seconds = 1.0, .ranks = {}};
  for (int rank = 0; rank < 200; ++rank) {
    std::vector<TimelinePiece> pieces;
    for (int i = 0; i < 1000; ++i) pieces.push_back({1e-3 * i, 1e-3 * (i + 1), i % 2 == 0 ? "forward" : "backward", i});
    timeline.ranks.push_back(std::move(pieces));
  }
  thin(timeline);
  std::size_t pieces = 0;
  for (const auto& rank : timeline.ranks) {
    pieces += rank.size();
    EXPECT_EQ(rank.front().begin, 0.0);
    EXPECT_NEAR(rank.back().end, 1.0, 1e-9);
  }
  EXPECT_LE(pieces, 20000u);
}

}  // namespace
}  // namespace cohort
