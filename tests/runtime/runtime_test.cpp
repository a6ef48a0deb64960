// Runtime on several ranks of one machine. MPI and Kokkos are up already, by the test's main: the Runtime must leave them up.
#include "runtime/runtime.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <numeric>
#include <stdexcept>

#include "base/error.hpp"
#include "gpu/device.hpp"
#include "runtime/device_choice.hpp"
#include "runtime/mpi_world.hpp"
#include "runtime/topology.hpp"

namespace cohort {
namespace {

TEST(Runtime, FactsAgreeWithMpirun) {
  const Runtime runtime;
  // Started by mpirun on this machine alone: one node, where global and local numbers are the same.
  ASSERT_EQ(runtime.launcher().launcher, Launcher::mpirun);
  EXPECT_EQ(runtime.launcher().rank, runtime.rank());
  EXPECT_EQ(runtime.launcher().size, runtime.size());
  EXPECT_EQ(runtime.local_rank(), runtime.rank());
  EXPECT_EQ(runtime.local_size(), runtime.size());
  EXPECT_EQ(runtime.node_rank(), 0);
  EXPECT_EQ(runtime.node_count(), 1);
  EXPECT_FALSE(runtime.host().empty());
  EXPECT_TRUE(runtime.warnings().empty());
  const ProcessIdentity identity = process_identity();
  EXPECT_EQ(identity.rank, runtime.rank());
  EXPECT_EQ(identity.size, runtime.size());
}

TEST(Runtime, LeavesUpWhatWasUp) {
  const bool kokkos_was_up = Kokkos::is_initialized();  // not on the CPU in a build for GPUs, where it would need one
  { const Runtime runtime; }
  EXPECT_TRUE(mpi_is_live());
  EXPECT_EQ(Kokkos::is_initialized(), kokkos_was_up);
  const Runtime again;
  EXPECT_GE(again.size(), 1);
}

// The lowest rank's problem reaches all, and none waits for another.
TEST(Runtime, OneRanksProblemIsEveryones) {
  const Runtime runtime;
  for (int first = 0; first < runtime.size(); ++first) {
    std::optional<Error> own;
    if (runtime.rank() >= first) own = Error(ExitCode::launch, "rank " + std::to_string(runtime.rank()) + " has no device");
    try {
      agree_on_problem(own);
      ADD_FAILURE() << "no error";
    } catch (const SharedError& error) {
      EXPECT_EQ(error.what(), "rank " + std::to_string(first) + " has no device");
      EXPECT_EQ(error.code(), ExitCode::launch);
    }
  }
  EXPECT_NO_THROW(agree_on_problem(std::nullopt));
}

// Where there is no GPU, all ranks learn why, in one message.
TEST(Runtime, WithoutAGpuNoneIsChosen) {
  if (gpu::visible_devices() > 0) GTEST_SKIP() << "this machine has a GPU";
  const Runtime runtime;
  try {
    choose_device(runtime.host(), runtime.local_rank(), /*share=*/false);
    ADD_FAILURE() << "no error";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.code(), ExitCode::launch);
    EXPECT_EQ(error.what(), "no rank sees a GPU; on " + runtime.host() + ": " + gpu::why_no_device());
  }
}

TEST(Runtime, TextsOfAllLengthsAreGathered) {
  const Runtime runtime;
  const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank)); };
  const std::vector<std::string> texts = gather_text(text_of(runtime.rank()));
  if (runtime.rank() != 0) {
    EXPECT_TRUE(texts.empty());
    return;
  }
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(runtime.size()));
  for (int rank = 0; rank < runtime.size(); ++rank) EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank));
}

TEST(Runtime, PlacesInRankOrder) {
  const Runtime runtime;
  const std::vector<Place> places = gather_places(runtime);
  ASSERT_EQ(places.size(), runtime.rank() == 0 ? static_cast<std::size_t>(runtime.size()) : 0U);
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(places[i].rank, static_cast<int>(i));
    EXPECT_EQ(places[i].local_rank, static_cast<int>(i));
    EXPECT_EQ(places[i].host, runtime.host());
    EXPECT_EQ(places[i].device, "cpu");
    EXPECT_FALSE(places[i].cores.empty());
    EXPECT_GE(places[i].online, 1);
  }
}

TEST(Runtime, MpiErrorsBecomeErrors) {
  EXPECT_NO_THROW(check_mpi(0, "MPI_Something"));  // MPI_SUCCESS is 0 in every MPI
  try {
    check_mpi(1, "MPI_Something");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("MPI_Something failed: "), std::string::npos);
  }
}

}  // namespace
}  // namespace cohort
