// Builds without CUDA say so when NCCL is asked for.
#include <gtest/gtest.h>

#include "comm/nccl_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(NoNcclCommunicator, IsRefusedWithTheReason) {
  const auto host = make_self_communicator("world");
  EXPECT_ERROR(make_nccl_communicator(*host, "dp"), ExitCode::launch, "group 'dp'", "no CUDA", "preset cuda");
}

TEST(NoNcclCommunicator, NothingIsEverInFlight) {
  check_nccl_progress();
  set_collective_timeout(5.0);
  EXPECT_ERROR(set_collective_timeout(0.0), ExitCode::internal, "must be positive");
}

}  // namespace
}  // namespace cohort::test
