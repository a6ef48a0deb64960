// Peers that never come: the rank that waits must get out, within its time-out, with an error that names it and the collective.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <vector>

#include "comm/collective_watch.hpp"
#include "comm/device_backends.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

[[maybe_unused]] const ::testing::Environment* const environment = ::testing::AddGlobalTestEnvironment(new DeviceEnvironment);

class NcclFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (host_world().size() < 2) GTEST_SKIP() << "one rank waits for nobody";
    set_collective_timeout(2.0);
  }
  void TearDown() override {
    EXPECT_LT(std::chrono::steady_clock::now() - start_, std::chrono::seconds(40));
    set_collective_timeout(CollectiveWatch::kDefaultSeconds);
    host_world().barrier();
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_F(NcclFaults, ALostPeerIsAnErrorThatNamesTheCollective) {
  auto nccl = NcclBackend::make();
  DeviceBuffer<float> x(std::vector<float>(12'345, 1.0f));
  nccl->all_reduce(x.data(), 12'345, DType::f32, ReduceOp::sum);
  gpu::synchronize(check_nccl_progress);
  if (nccl->rank() == 0) {
    const auto lonely = [&] {
      nccl->all_reduce(x.data(), 12'345, DType::f32, ReduceOp::sum);
      gpu::synchronize(check_nccl_progress);
    };
    EXPECT_ERROR(lonely(), ExitCode::lost, "all_reduce of 12345 fp32 on group 'world' (number 2), rank 0 of",
                 "not finished after 2 s");
    gpu::synchronize();  // the kernel has left the device
    EXPECT_ERROR(nccl->all_reduce(x.data(), 1, DType::f32, ReduceOp::sum), ExitCode::internal, "(number 3)",
                 "NCCL was stopped on this rank: all_reduce of 12345 fp32");
  }
  host_world().barrier();  // the others have been here all the while
  nccl.reset();
}

// The first operation of a group connects its peers, on the host.
TEST_F(NcclFaults, APeerThatIsLostFromTheStart) {
  auto nccl = NcclBackend::make();
  DeviceBuffer<float> x(std::vector<float>(1000, 1.0f));
  if (nccl->rank() == 0) {
    const auto lonely = [&] {
      nccl->all_gather(x.data(), x.data(), 1000 / nccl->size(), DType::f32);
      gpu::synchronize(check_nccl_progress);
    };
    EXPECT_ERROR(lonely(), ExitCode::lost, "all_gather of", "number 1", "not finished after 2 s");
  }
  host_world().barrier();
  nccl.reset();
}

// The device waits for a neighbour that will not send: messages around a ring are not NCCL's, where GPUs reach each other.
TEST_F(NcclFaults, ANeighbourOfARingThatIsLost) {
  auto nccl = NcclBackend::make();
  const int n = nccl->size(), right = (nccl->rank() + 1) % n, left = (nccl->rank() + n - 1) % n;
  DeviceBuffer<float> x(std::vector<float>(1000, 1.0f)), y(std::vector<float>(1000));
  const auto turn = [&] {
    Request sent = nccl->send_async(x.data(), 1000, DType::f32, right, kRingTag);
    Request received = nccl->recv_async(y.data(), 1000, DType::f32, left, kRingTag);
    sent.wait();
    received.wait();
    gpu::synchronize(check_nccl_progress);
  };
  turn();
  if (nccl->rank() == 0) {
    EXPECT_ERROR(turn(), ExitCode::lost, "send of 1000 fp32 on group 'world'", "rank 0 of", "not finished after 2 s");
    gpu::synchronize();  // nothing waits on the device any more
  }
  host_world().barrier();
  if (nccl->rank() != 0) EXPECT_EQ(y.host(), std::vector<float>(1000, 1.0f));
  nccl.reset();
}

// As an error elsewhere would: the request and the communicator are destroyed while the peers are still to come.
TEST_F(NcclFaults, UnwindingDoesNotWaitForPeersThatNeverCome) {
  DeviceBuffer<float> x(std::vector<float>(1000, 1.0f));
  try {
    const auto nccl = NcclBackend::make();
    if (nccl->rank() == 0) {
      const Request request = nccl->all_reduce_async(x.data(), 1000, DType::f32, ReduceOp::sum);
      throw std::runtime_error("something else went wrong");
    }
    host_world().barrier();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "something else went wrong");
    host_world().barrier();
  }
  gpu::synchronize();
}

// After a fault, new groups work.
TEST_F(NcclFaults, NewGroupsWork) {
  const auto nccl = NcclBackend::make();
  DeviceBuffer<float> x(std::vector<float>(10, 1.0f));
  nccl->all_reduce(x.data(), 10, DType::f32, ReduceOp::sum);
  EXPECT_EQ(x.host(), std::vector<float>(10, static_cast<float>(nccl->size())));
}

}  // namespace
}  // namespace cohort::test
