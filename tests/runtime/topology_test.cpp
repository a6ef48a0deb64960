// Which global ranks are on which node.
#include "runtime/topology.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

TEST(RanksOfNode, EveryRankIsOnOneNode) {
  for (const int nodes : {1, 2, 7}) {
    for (const int per_node : {1, 3, 8}) {
      int next = 0;
      for (int node = 0; node < nodes; ++node) {
        const NodeRanks ranks = ranks_of_node(nodes, per_node, node);
        EXPECT_EQ(ranks.first, next);
        EXPECT_EQ(ranks.count, per_node);
        EXPECT_EQ(ranks.world_size, nodes * per_node);
        next += ranks.count;
      }
      EXPECT_EQ(next, nodes * per_node);
    }
  }
}

TEST(RanksOfNode, OutOfRange) {
  EXPECT_ERROR(ranks_of_node(4, 2, 4), ExitCode::usage, "--node 4", "0 to 3");
  EXPECT_ERROR(ranks_of_node(4, 2, -1), ExitCode::usage, "--node -1", "0 to 3");
  EXPECT_ERROR(ranks_of_node(0, 2, 0), ExitCode::usage, "--nodes 0", "range 1");
  EXPECT_ERROR(ranks_of_node(4, -3, 0), ExitCode::usage, "--ranks-per-node -3", "range 1");
  EXPECT_ERROR(ranks_of_node(100000, 100000, 0), ExitCode::usage, "10000000000 ranks");
}

}  // namespace
}  // namespace cohort
