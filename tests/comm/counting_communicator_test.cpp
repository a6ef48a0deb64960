// A group of one rank that counts, against the groups of real ranks.
#include "comm/counting_communicator.hpp"

#include <gtest/gtest.h>

#include "base/work_tape.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/trace.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(CountingCommunicator, SendsNothingAndTellsItsObserver) {
  const auto group = make_counting_communicator("dp", 5, 16384);
  CommTrace trace;
  trace.attach(*group);
  float value = 1.0f;
  void* const nowhere = reinterpret_cast<void*>(0x00F0'0000'0000'0000);
  group->all_reduce(&value, 1, DType::f32, ReduceOp::sum);
  group->all_gather_async(nowhere, static_cast<std::byte*>(nowhere) + (Count{1} << 44), 1000, DType::bf16).wait();
  Request sent = group->send_async(nowhere, 7, DType::f32, 6);
  EXPECT_TRUE(sent.test());
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(trace.totals("dp", "all_reduce").bytes, 4);
  EXPECT_EQ(trace.totals("dp", "all_gather").bytes, Bytes{16384} * 1000 * 2);
  EXPECT_EQ(trace.totals("dp", "all_gather").ranks, 16384);
  EXPECT_EQ(trace.totals("dp", "send").bytes, 28);
}

// As an MPI group is divided: same sizes, same places, and nobody where the colour is negative.
TEST(CountingCommunicator, IsDividedAsRealRanksAre) {
  const auto world = make_world_communicator();
  const auto alone = make_counting_communicator("world", world->rank(), world->size());
  const std::vector<Communicator::ColorOf> divisions{[](int rank) { return rank / 2; }, [](int rank) { return rank % 2; },
                                                     [](int) { return 7; },
                                                     [](int rank) { return rank == 0 || rank == 3 ? 0 : -1; }};
  for (const Communicator::ColorOf& color_of : divisions) {
    const auto real = world->split_by(color_of, "part"), counted = alone->split_by(color_of, "part");
    ASSERT_EQ(real == nullptr, counted == nullptr);
    if (!real) continue;
    EXPECT_EQ(real->size(), counted->size());
    EXPECT_EQ(real->rank(), counted->rank());
    EXPECT_EQ(counted->name(), "part");
  }
}

// Who takes part, and where the caller waits: at once in the blocking forms.
TEST(CountingCommunicator, WritesItsOperationsOnATape) {
  const auto world = make_counting_communicator("world", 6, 16);
  const auto group = world->split_by([](int rank) { return rank % 4; }, "dp");
  float value = 1.0f;
  WorkTape tape;
  {
    const ListeningScope listens(tape);
    std::vector<float> all(4);
    Request gathered = group->all_gather_async(&value, all.data(), 1, DType::f32);
    EXPECT_FALSE(gathered.test());
    group->all_reduce(&value, 1, DType::f32, ReduceOp::sum);
    gathered.wait();
    EXPECT_TRUE(group->send_async(&value, 1, DType::f32, 0).test());
  }
  group->all_reduce(&value, 1, DType::f32, ReduceOp::sum);  // on no tape
  ASSERT_EQ(tape.entries().size(), 4u);
  const auto& first = std::get<CollectiveStart>(tape.entries()[0]);
  const auto& second = std::get<CollectiveStart>(tape.entries()[1]);
  EXPECT_EQ(first.operation, "all_gather");
  EXPECT_EQ(first.group, "dp");
  EXPECT_EQ(*first.members, (std::vector<int>{2, 6, 10, 14}));
  EXPECT_EQ(first.bytes, 16);
  EXPECT_EQ(std::get<CollectiveWait>(tape.entries()[2]).id, second.id);
  EXPECT_EQ(std::get<CollectiveWait>(tape.entries()[3]).id, first.id);
}

TEST(CountingCommunicator, DoesNotKnowOtherRanksColours) {
  const auto alone = make_counting_communicator("world", 0, 4);
  expect_error([&] { alone->split(0, 0, "part"); }, ExitCode::internal, {"split_by"});
}

}  // namespace
}  // namespace cohort::test
