// Clocks and messages between ranks that play nodes of their own: figures of this machine that can be known.
#include "preflight/measure_nodes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "comm/mpi_communicator.hpp"

namespace cohort::preflight::test {
namespace {

// Any machine: a message between processes takes less than a second, and more than nothing.
void expect_sane(const Link& link) {
  EXPECT_GT(link.latency, 1e-8);
  EXPECT_LT(link.latency, 1.0);
  EXPECT_GT(link.speed, 1e6);
  EXPECT_LT(link.speed, 1e12);
}

TEST(MeasureNetwork, RanksAsNodes) {
  const auto world = make_world_communicator();
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < world->size(); ++rank) node_of_rank.push_back(rank);
  Node own;
  measure_network(*world, node_of_rank, /*quick=*/false, own);
  // The same clock for all: the offset is within the error, which is the whole promise.
  EXPECT_LE(std::abs(own.clock_offset), own.clock_error + 1e-6);  // the clock's own grain
  if (world->rank() == 0) {
    EXPECT_EQ(own.clock_error, 0.0);
  }
  // The lower rank of each pair has measured it.
  EXPECT_EQ(static_cast<int>(own.links.size()), world->size() - 1 - world->rank());
  std::map<int, int> partners;
  for (const Link& link : own.links) {
    expect_sane(link);
    EXPECT_EQ(link.a, world->rank());
    ++partners[link.b];
  }
  EXPECT_EQ(partners.size(), own.links.size());
}

TEST(MeasureNetwork, RanksOfOneNode) {
  const auto world = make_world_communicator();
  Node own;
  measure_network(*world, std::vector<int>(static_cast<std::size_t>(world->size()), 0), /*quick=*/true, own);
  ASSERT_EQ(own.links.size(), world->rank() == 0 ? 1u : 0u);
  for (const Link& link : own.links) {
    expect_sane(link);
    EXPECT_EQ(link.a, link.b);
  }
}

}  // namespace
}  // namespace cohort::preflight::test
