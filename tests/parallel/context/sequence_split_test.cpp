// Who holds what of a sequence, and how the work of causal attention falls on the ranks.
#include "parallel/context/sequence_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ops/partial_attention.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using ops::TokenRun;

TEST(SequenceSplit, RankHoldsOneEarlyAndOneLateChunk) {
  const SequenceSplit split(24, 3);  // chunks of 4
  EXPECT_EQ(split.tokens_of_rank(), 8);
  EXPECT_EQ(split.rows_of(0), (ops::TokenRows{24, {TokenRun{0, 0, 4}, TokenRun{4, 20, 4}}}));
  EXPECT_EQ(split.rows_of(1), (ops::TokenRows{24, {TokenRun{0, 4, 4}, TokenRun{4, 16, 4}}}));
  EXPECT_EQ(split.rows_of(2), (ops::TokenRows{24, {TokenRun{0, 8, 4}, TokenRun{4, 12, 4}}}));
}

TEST(SequenceSplit, EveryTokenIsHeldOnce) {
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    const SequenceSplit split(6 * ranks, ranks);
    std::vector<int> held(static_cast<std::size_t>(6 * ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      const ops::TokenRows rows = split.rows_of(rank);
      EXPECT_EQ(rows.count(), split.tokens_of_rank());
      for (const TokenRun& run : rows.runs)
        for (Count i = 0; i < run.count; ++i) ++held[static_cast<std::size_t>(run.position + i)];
    }
    EXPECT_EQ(std::ranges::count(held, 1), 6 * ranks);
  }
}

Count work(const SequenceSplit& split, int rank, int owner) {
  Count pairs = 0;
  for (const auto& [queries, keys] : split.visible_runs(rank, owner)) pairs += ops::visible_pairs(queries, keys);
  return pairs;
}

TEST(SequenceSplit, EveryRankHasTheSameWorkAtEveryStep) {
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    const Count tokens = 10 * ranks, chunk = 5;
    const SequenceSplit split(tokens, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      Count total = 0;
      for (int owner = 0; owner < ranks; ++owner) {
        const Count expected = rank == owner ? chunk * chunk + chunk * (chunk + 1) : 2 * chunk * chunk;
        EXPECT_EQ(work(split, rank, owner), expected) << "rank " << rank << " with keys of " << owner << " of " << ranks;
        total += work(split, rank, owner);
      }
      EXPECT_EQ(total * ranks, tokens * (tokens + 1) / 2) << "the causal triangle, shared out evenly";
    }
  }
}

// What neighbouring halves would cost: the reason for the zigzag order.
TEST(SequenceSplit, NeighbouringChunksWouldNotBeBalanced) {
  const TokenRun early{0, 0, 8}, late{0, 8, 8};
  EXPECT_GT(ops::visible_pairs(late, early) + ops::visible_pairs(late, late), 2 * ops::visible_pairs(early, early));
}

TEST(SequenceSplit, EveryVisiblePairFallsToOneRankOnce) {
  const SequenceSplit split(24, 3);
  std::set<std::pair<Count, Count>> pairs;
  Count blocks = 0;
  for (int rank = 0; rank < 3; ++rank) {
    for (int owner = 0; owner < 3; ++owner) {
      for (const auto& [queries, keys] : split.visible_runs(rank, owner)) {
        ++blocks;
        for (Count i = 0; i < queries.count; ++i) {
          for (Count j = 0; j < keys.count; ++j) {
            const Count query = queries.position + i, key = keys.position + j;
            if (query < key) continue;
            EXPECT_TRUE(pairs.emplace(query, key).second) << query << " sees " << key << " twice";
          }
        }
      }
    }
  }
  EXPECT_EQ(pairs.size(), 24u * 25u / 2u);
  EXPECT_EQ(blocks, 3 * (3 + 2 + 2));
}

TEST(SequenceSplit, CutsValuesOfSamples) {
  const SequenceSplit split(8, 2);
  std::vector<std::int32_t> whole(16);  // two samples
  std::iota(whole.begin(), whole.end(), 100);
  EXPECT_EQ(split.part_of(0, whole), (std::vector<std::int32_t>{100, 101, 106, 107, 108, 109, 114, 115}));
  EXPECT_EQ(split.part_of(1, whole), (std::vector<std::int32_t>{102, 103, 104, 105, 110, 111, 112, 113}));
  EXPECT_TRUE(split.part_of(0, {}).empty());
  EXPECT_ERROR(split.part_of(0, std::span(whole).first(15)), ExitCode::internal, "15");
}

TEST(SequenceSplit, RefusesWhatDoesNotDivide) {
  EXPECT_ERROR(SequenceSplit(1000, 3), ExitCode::config, "1000", "6 equal chunks", "996 or 1002", "model.context", "parallel.cp");
  EXPECT_ERROR(SequenceSplit(3, 2), ExitCode::config, "3 tokens", "4 equal chunks", "to 4,");
  EXPECT_ERROR(SequenceSplit(0, 1), ExitCode::config, "to 2,");
  EXPECT_ERROR(SequenceSplit(8, 0), ExitCode::internal, "0 ranks");
}

}  // namespace
}  // namespace cohort::test
