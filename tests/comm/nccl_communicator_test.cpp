// NCCL and the self communicator on device memory: the suite of all backends, and what NCCL promises beyond it, with MPI as the
// oracle.
#include "comm/nccl_communicator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "comm/device_backends.hpp"
#include "comm/peer_ring.hpp"
#include "communicator_misuse_suite.hpp"
#include "communicator_suite.hpp"
#include "gpu/links.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

[[maybe_unused]] const ::testing::Environment* const environment = ::testing::AddGlobalTestEnvironment(new DeviceEnvironment);

INSTANTIATE_TYPED_TEST_SUITE_P(Device, CommunicatorTest, DeviceBackends);
INSTANTIATE_TYPED_TEST_SUITE_P(Device, CommunicatorMisuseTest, DeviceBackends);

/// Numbers whose sum must be rounded: both signs, magnitudes from 1e-3 to 1e3.
template <class T>
std::vector<T> rough_values(int rank, Count count) {
  const CounterRandom random(11, RandomPurpose::test, 0, static_cast<std::uint32_t>(rank));
  std::vector<T> values;
  for (Count i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    values.push_back(from_double<T>(random.normal(2 * index) * std::pow(10.0, 6.0 * random.uniform(2 * index + 1) - 3.0)));
  }
  return values;
}

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

template <class T>
std::vector<T> nccl_sum(Communicator& nccl, const std::vector<T>& values) {
  DeviceBuffer<T> buffer(values);
  nccl.all_reduce(buffer.data(), static_cast<Count>(values.size()), dtype_of<T>, ReduceOp::sum);
  return buffer.host();
}

/// One addition rounds alike everywhere; of more, the order may differ from MPI's.
template <class T>
void check_against_mpi(Communicator& nccl, Count count, double tolerance) {
  const std::vector<T> own = rough_values<T>(nccl.rank(), count);
  const std::vector<T> sum = nccl_sum(nccl, own);
  std::vector<T> expected = own;
  host_world().all_reduce(expected.data(), count, dtype_of<T>, ReduceOp::sum);
  if (nccl.size() <= 2) {
    EXPECT_EQ(bytes_of(sum), bytes_of(expected));
  } else {
    Count wrong = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double e = to_double(expected[i]);
      if (std::fabs(to_double(sum[i]) - e) > tolerance * (1e3 * nccl.size())) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << "of " << count;
  }
  std::vector<std::uint8_t> of_rank_0 = bytes_of(sum);
  host_world().broadcast(of_rank_0.data(), static_cast<Count>(of_rank_0.size()), DType::u8, 0);
  EXPECT_EQ(bytes_of(sum), of_rank_0) << "not the same on all ranks";
  for (int repeat = 0; repeat < 3; ++repeat) EXPECT_EQ(bytes_of(nccl_sum(nccl, own)), bytes_of(sum)) << "not the same each time";
}

TEST(NcclCommunicator, SumsAgreeWithMpi) {
  const auto nccl = NcclBackend::make();
  for (const Count count : {1, 1001, 262'145, 3'000'001}) {
    SCOPED_TRACE(count);
    check_against_mpi<float>(*nccl, count, 1e-6);
    check_against_mpi<double>(*nccl, count, 1e-14);
    check_against_mpi<bf16>(*nccl, count, 1e-2);
    check_against_mpi<f16>(*nccl, count, 1e-3);
  }
}

// Or all tests of messages around a ring would be of NCCL's own.
TEST(NcclCommunicator, GpusThatReachEachOtherShareARing) {
  const int n = host_world().size();
  if (n == 1) GTEST_SKIP() << "one rank has nobody to send to";
  if (std::getenv("NCCL_P2P_DISABLE") != nullptr) GTEST_SKIP() << "NCCL_P2P_DISABLE is set";
  bool reached = gpu::visible_devices() >= n;
  for (int r = 0; reached && r < n; ++r) reached = gpu::has_peer_access(r, (r + 1) % n) && gpu::has_peer_access((r + 1) % n, r);
  if (!reached) GTEST_SKIP() << "these GPUs have no peer access, or each rank sees its own only";
  const std::unique_ptr<PeerRing> ring = PeerRing::make(host_world());
  ASSERT_NE(ring, nullptr);
  ring->reserve(5 * kMiB);
  EXPECT_GE(ring->room(), 5 * kMiB);
  host_world().barrier();
}

// Bytes: one at each end of a buffer of more than 2^31 elements.
TEST(NcclCommunicator, CountsGoBeyond31Bits) {
  const auto nccl = NcclBackend::make();
  constexpr Count kCount = (Count{1} << 31) + 5;
  auto* data = static_cast<std::uint8_t*>(gpu::allocate(kCount, "a large buffer of a test"));
  gpu::zero_async(data, kCount, gpu::compute_stream());
  const std::uint8_t ends[2] = {3, 7};
  gpu::copy(data, &ends[0], 1);
  gpu::copy(data + kCount - 1, &ends[1], 1);
  nccl->all_reduce(data, kCount, DType::u8, ReduceOp::sum);
  std::uint8_t sums[3] = {9, 9, 9};
  gpu::copy(&sums[0], data, 1);
  gpu::copy(&sums[1], data + kCount - 1, 1);
  gpu::copy(&sums[2], data + kCount / 2, 1);
  EXPECT_EQ(sums[0], 3 * nccl->size());
  EXPECT_EQ(sums[1], 7 * nccl->size());
  EXPECT_EQ(sums[2], 0);
  gpu::release(data);
}

// Nothing waits on the host between a slow copy, the sum of what it wrote, and the copy of the sum.
TEST(NcclCommunicator, RunsAfterTheComputeStreamAndBeforeWhatFollows) {
  const auto nccl = NcclBackend::make();
  constexpr Count kCount = 32 << 20;
  DeviceBuffer<float> ones(std::vector<float>(kCount, 1.0f));
  DeviceBuffer<float> sum(std::vector<float>(kCount, 5.0f));
  DeviceBuffer<float> result(std::vector<float>(kCount, 9.0f));
  for (int repeat = 0; repeat < 5; ++repeat) {
    gpu::copy_async(sum.data(), ones.data(), kCount * 4, gpu::compute_stream());
    Request request = nccl->all_reduce_async(sum.data(), kCount, DType::f32, ReduceOp::sum);
    request.wait();
    gpu::copy_async(result.data(), sum.data(), kCount * 4, gpu::compute_stream());
    gpu::zero_async(sum.data(), kCount * 4, gpu::compute_stream());
  }
  EXPECT_EQ(result.host(), std::vector<float>(kCount, static_cast<float>(nccl->size())));
}

TEST(NcclCommunicator, TwoGroupsInAlternation) {
  const auto first = NcclBackend::make();
  const auto second = first->split(0, -first->rank(), "reversed");
  ASSERT_EQ(second->rank(), first->size() - 1 - first->rank());
  DeviceBuffer<float> a(std::vector<float>(100'003, 1.0f));
  DeviceBuffer<double> b(std::vector<double>(7, 1.0));
  std::vector<Request> requests;
  for (int i = 0; i < 50; ++i) {
    requests.push_back(first->all_reduce_async(a.data(), 100'003, DType::f32, ReduceOp::avg));
    requests.push_back(second->all_reduce_async(b.data(), 7, DType::f64, ReduceOp::max));
  }
  for (Request& request : requests) request.wait();
  EXPECT_EQ(a.host(), std::vector<float>(100'003, 1.0f));
  EXPECT_EQ(b.host(), std::vector<double>(7, 1.0));
}

// Messages in both directions are launched together, whatever the order of their posting.
TEST(NcclCommunicator, PeersExchangeMessages) {
  const auto nccl = NcclBackend::make();
  if (nccl->size() != 2) GTEST_SKIP() << "for two ranks";
  const int peer = 1 - nccl->rank();
  DeviceBuffer<float> first(test_values<float>(nccl->rank(), 1000));
  DeviceBuffer<float> second(test_values<float>(nccl->rank() + 2, 500'001));
  DeviceBuffer<float> in_first(std::vector<float>(1000));
  DeviceBuffer<float> in_second(std::vector<float>(500'001));
  std::vector<Request> requests;
  const auto receive = [&] {
    requests.push_back(nccl->recv_async(in_first.data(), 1000, DType::f32, peer));
    requests.push_back(nccl->recv_async(in_second.data(), 500'001, DType::f32, peer));
  };
  if (nccl->rank() == 0) receive();
  requests.push_back(nccl->send_async(first.data(), 1000, DType::f32, peer));
  requests.push_back(nccl->send_async(second.data(), 500'001, DType::f32, peer));
  if (nccl->rank() == 1) receive();
  while (!requests.back().test()) {
  }
  for (Request& request : requests) request.wait();
  EXPECT_EQ(in_first.host(), test_values<float>(peer, 1000));
  EXPECT_EQ(in_second.host(), test_values<float>(peer + 2, 500'001));
}

TEST(NcclCommunicator, TagsAreRefused) {
  const auto nccl = NcclBackend::make();
  if (nccl->size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  DeviceBuffer<float> x(std::vector<float>{1.0f});
  const int peer = (nccl->rank() + 1) % nccl->size();
  EXPECT_ERROR(nccl->send(x.data(), 1, DType::f32, peer, 5), ExitCode::internal, "send on group 'world'", "tag 5", "use tag 0");
  EXPECT_ERROR(nccl->recv(x.data(), 1, DType::f32, peer, 2), ExitCode::internal, "recv on group 'world'", "tag 2");
}

TEST(NcclCommunicator, RequestsOutliveTheirGroup) {
  auto world = NcclBackend::make();
  const int n = world->size();
  auto part = world->split(0, 0, "part");
  world.reset();
  DeviceBuffer<float> x(std::vector<float>{1.0f});
  Request request = part->all_reduce_async(x.data(), 1, DType::f32, ReduceOp::sum);
  part.reset();
  request.wait();
  EXPECT_EQ(x.host()[0], static_cast<float>(n));
}

TEST(NcclCommunicator, DroppedRequestsComplete) {
  const auto nccl = NcclBackend::make();
  DeviceBuffer<float> a(std::vector<float>(1000, 1.0f));
  DeviceBuffer<float> b(std::vector<float>(1000, 2.0f));
  {
    Request request = nccl->all_reduce_async(a.data(), 1000, DType::f32, ReduceOp::sum);
    request = nccl->all_reduce_async(b.data(), 1000, DType::f32, ReduceOp::avg);
  }
  EXPECT_EQ(a.host(), std::vector<float>(1000, static_cast<float>(nccl->size())));
  EXPECT_EQ(b.host(), std::vector<float>(1000, 2.0f));
}

}  // namespace
}  // namespace cohort::test
