// The course's all-reduces against the communicator's own.
#include "comm/algorithms.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "comm/trace.hpp"
#include "support/expect_error.hpp"
#include "test_values.hpp"

namespace cohort::test {
namespace {

// Fewer elements than ranks, none, odd counts, and messages far beyond what MPI buffers (64 Ki floats and more block a plain
// send).
constexpr Count kCounts[] = {0, 1, 2, 3, 4, 5, 7, 1000, 1023, 65'537, 1'000'001};

TEST(Algorithms, GiveTheSumOfWholeNumbersExactly) {
  const auto comm = make_world_communicator();
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    for (const Count count : kCounts) {
      SCOPED_TRACE(std::string(name_of(algorithm)) + " of " + std::to_string(count));
      std::vector<float> data = test_values<float>(comm->rank(), count);
      std::vector<float> expected = data;
      all_reduce(*comm, std::span(expected), ReduceOp::sum);
      run_all_reduce(algorithm, *comm, data);
      EXPECT_EQ(data, expected);
    }
  }
}

TEST(Algorithms, AgreeWithMpiOnRoughNumbersAndGiveAllRanksTheSameBits) {
  const auto comm = make_world_communicator();
  const CounterRandom random(3, RandomPurpose::test, 0, static_cast<std::uint32_t>(comm->rank()));
  std::vector<float> start(10'007);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(random.normal(i));
  std::vector<float> expected = start;
  all_reduce(*comm, std::span(expected), ReduceOp::sum);
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    SCOPED_TRACE(name_of(algorithm));
    std::vector<float> data = start;
    run_all_reduce(algorithm, *comm, data);
    // Two orders of n - 1 <= 3 additions of numbers below 6: each addition rounds by at most 2^-24 of a partial sum below 32.
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_NEAR(data[i], expected[i], 2 * 3 * 32 * 0x1.0p-24) << i;
    std::vector<float> of_rank_0 = data;
    broadcast(*comm, std::span(of_rank_0), 0);
    EXPECT_EQ(std::memcmp(of_rank_0.data(), data.data(), data.size() * sizeof(float)), 0);
  }
}

// The cost model of the header, in messages and bytes.
TEST(Algorithms, SendAsManyBytesAsTheCostModelSays) {
  const auto comm = make_world_communicator();
  const int n = comm->size();
  CommTrace trace;
  trace.attach(*comm);
  std::vector<float> data(1200, 1.0f);  // divisible by 2, 3 and 4
  const Bytes bytes = 4800;

  naive_all_reduce(*comm, data);
  EXPECT_EQ(trace.totals("world", "send").bytes, comm->rank() == 0 ? (n - 1) * bytes : bytes);
  trace.reset();
  tree_all_reduce(*comm, data);
  Bytes sent = trace.totals("world", "send").bytes;
  comm->observe({});
  EXPECT_EQ(all_reduce_value(*comm, sent, ReduceOp::sum), 2 * (n - 1) * bytes);
  trace.reset();
  trace.attach(*comm);
  ring_all_reduce(*comm, data);
  EXPECT_EQ(trace.totals("world", "send").bytes, 2 * (n - 1) * bytes / n);
  EXPECT_EQ(trace.totals("world", "send").calls, 2 * (n - 1));
  EXPECT_EQ(trace.totals("world", "all_reduce").calls, 0);
}

TEST(Algorithms, OneRankAloneNeedsNobody) {
  const auto self = make_self_communicator("self");
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    std::vector<float> data{1.5f, -2.0f};
    run_all_reduce(algorithm, *self, data);
    EXPECT_EQ(data, (std::vector<float>{1.5f, -2.0f})) << name_of(algorithm);
  }
}

TEST(Algorithms, Names) {
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms)
    EXPECT_EQ(all_reduce_algorithm_from_name(name_of(algorithm)), algorithm);
  EXPECT_ERROR(all_reduce_algorithm_from_name("rings"), ExitCode::usage, "'rings'", "available: mpi, naive, tree, ring");
}

}  // namespace
}  // namespace cohort::test
