// Ranks with different NCCL libraries are told so, all alike.
#include "comm/nccl_version.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "comm/mpi_communicator.hpp"

namespace cohort::test {
namespace {

TEST(NcclVersion, IsReadFromItsCode) {
  EXPECT_EQ(nccl_version_text(22803), "2.28.3");
  EXPECT_EQ(nccl_version_text(21005), "2.10.5");
}

TEST(NcclVersion, TheFirstRankThatDiffersIsNamedOnAll) {
  const auto world = make_world_communicator();
  EXPECT_NO_THROW(check_nccl_versions(*world, 22803));
  if (world->size() == 1) return;
  const bool differs = world->rank() == world->size() - 1;
  try {
    check_nccl_versions(*world, differs ? 21805 : 22803);
    ADD_FAILURE() << "no error";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.code(), ExitCode::launch);
    const std::string message = error.what();
    EXPECT_NE(message.find("world rank " + std::to_string(world->size() - 1)), std::string::npos) << message;
    EXPECT_NE(message.find("NCCL is 2.18.5 here and 2.28.3 on rank 0"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace cohort::test
