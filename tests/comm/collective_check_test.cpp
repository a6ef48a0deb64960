// Calls compared before each collective: ranks that differ all learn how, and where, instead of waiting for ever.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "comm/call_comparison.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

class CollectiveCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    world_->check_collectives();
    if (world_->size() == 1) GTEST_SKIP() << "one rank differs from nobody";
  }
  bool odd() const { return world_->rank() == world_->size() - 1; }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
  std::array<float, 8> x_{};
};

TEST_F(CollectiveCheck, EqualCallsWorkAsEver) {
  EXPECT_TRUE(world_->checks_collectives());
  EXPECT_EQ(all_reduce_value(*world_, 1, ReduceOp::sum), world_->size());
  world_->barrier();
  EXPECT_EQ(broadcast_text(*world_, "text of rank " + std::to_string(world_->rank()), 0), "text of rank 0");
  // Messages are not compared: only two ranks know of them.
  if (world_->rank() == 0) world_->send(x_.data(), 1, DType::f32, 1);
  if (world_->rank() == 1) world_->recv(x_.data(), 1, DType::f32, 0);
}

TEST_F(CollectiveCheck, AnotherCount) {
  EXPECT_ERROR(world_->all_reduce(x_.data(), odd() ? 3 : 2, DType::f32, ReduceOp::sum), ExitCode::internal, "group 'world'",
               "different collectives", "rank 0 calls all_reduce of 2 fp32 (sum)", "all_reduce of 3 fp32 (sum)",
               "collective_check_test.cpp:");
}

TEST_F(CollectiveCheck, AnotherType) {
  EXPECT_ERROR(world_->all_reduce(x_.data(), 2, odd() ? DType::i32 : DType::f32, ReduceOp::sum), ExitCode::internal, "of 2 fp32",
               "of 2 int32");
}

TEST_F(CollectiveCheck, AnotherReduction) {
  EXPECT_ERROR(world_->all_reduce(x_.data(), 2, DType::f32, odd() ? ReduceOp::max : ReduceOp::sum), ExitCode::internal, "(sum)",
               "(max)");
}

TEST_F(CollectiveCheck, AnotherRoot) {
  EXPECT_ERROR(world_->broadcast(x_.data(), 2, DType::f32, odd() ? 1 : 0), ExitCode::internal, "(from 0)", "(from 1)");
}

TEST_F(CollectiveCheck, AnotherOperation) {
  const auto call = [&] { odd() ? world_->barrier() : world_->all_gather(x_.data(), x_.data() + 4, 1, DType::f32); };
  EXPECT_ERROR(call(), ExitCode::internal, "rank 0 calls all_gather", " barrier at ");
}

TEST_F(CollectiveCheck, GroupsThatAreMadeLaterAreCheckedToo) {
  const auto group = world_->split(0, -world_->rank(), "backwards");
  EXPECT_TRUE(group->checks_collectives());
  EXPECT_ERROR(group->all_reduce(x_.data(), odd() ? 3 : 2, DType::f32, ReduceOp::sum), ExitCode::internal, "group 'backwards'",
               "rank 0 calls all_reduce of 3");
  const auto none = world_->split(world_->rank() == 0 ? -1 : 1, 0, "part");
  EXPECT_EQ(none == nullptr, world_->rank() == 0);
}

TEST(FirstDifference, NamesTheFirstThatDiffers) {
  const std::string a = "barrier\na.cpp:1", b = "barrier\nb.cpp:2", c = "all_gather of 2 fp32\nc.cpp:3";
  EXPECT_EQ(first_difference({a, b, a}), "") << "who calls makes no difference";
  EXPECT_EQ(first_difference({a, b, c, c}), "rank 0 calls barrier at a.cpp:1, rank 2 all_gather of 2 fp32 at c.cpp:3");
}

// What communicators write into the flight recorder.
TEST(Recording, OperationsWithTheirPlacesAndMembers) {
  const auto world = make_world_communicator();
  if (world->size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  // The job's last two ranks, in reverse.
  const int first = world->size() - 2;
  const auto pair = world->split(world->rank() >= first ? 0 : -1, -world->rank(), "pair");
  if (!pair) return;
  FlightRecorder& recorder = FlightRecorder::of_process();
  float x = 1.0f;
  pair->all_reduce(&x, 1, DType::f32, ReduceOp::sum);
  OperationRecord last = recorder.records().back();
  EXPECT_EQ(last.group, "pair");
  ASSERT_NE(last.members, nullptr);
  EXPECT_EQ(*last.members, (std::vector<int>{first + 1, first})) << "by their numbers in the job";
  EXPECT_EQ(last.number, 1U);
  EXPECT_GT(last.finished, 0.0);
  EXPECT_NE(last.str().find("collective_check_test.cpp:"), std::string::npos) << last.str();

  Request request = pair->all_reduce_async(&x, 1, DType::f32, ReduceOp::sum);
  last = recorder.records().back();
  EXPECT_EQ(last.number, 2U);
  EXPECT_EQ(last.finished, 0.0) << "in flight";
  EXPECT_FALSE(last.waits()) << "and nobody waits yet";
  request.wait();
  EXPECT_GT(recorder.records().back().finished, 0.0);

  const int peer = 1 - pair->rank();
  pair->rank() == 0 ? pair->send(&x, 1, DType::f32, peer) : pair->recv(&x, 1, DType::f32, peer);
  last = recorder.records().back();
  EXPECT_EQ(last.peer, (*pair->members())[static_cast<std::size_t>(peer)]);
  EXPECT_EQ(last.number, 0U);
  EXPECT_EQ(all_reduce_value(*pair, 1, ReduceOp::sum), 2);
  EXPECT_NE(recorder.records().back().str().find("collective_check_test.cpp:"), std::string::npos) << "not communicator.hpp";
}

}  // namespace
}  // namespace cohort::test
