#include "comm/clock_offset.hpp"

#include <gtest/gtest.h>

#include "comm/mpi_communicator.hpp"

namespace cohort::test {
namespace {

// The ranks of a test share a machine, and so a clock, which each puts wrong by seconds of its own.
double skew = 0.0;
double skewed_seconds() { return steady_seconds() + skew; }

TEST(ClockOffset, IsFoundWithinItsError) {
  const auto world = make_world_communicator();
  skew = world->rank() == 0 ? 100.0 : 1.5 * world->rank();
  for (int i = 0; i < 5; ++i) {
    const ClockOffset found = measure_clock_offset(*world, skewed_seconds);
    const double truth = world->rank() == 0 ? 0.0 : 1.5 * world->rank() - 100.0;
    EXPECT_LE(std::abs(found.seconds - truth), found.error + 1e-9);
    EXPECT_GE(found.error, 0.0);
    EXPECT_LT(found.error, 0.5) << "of a machine that is not dead";
  }
}

TEST(ClockOffset, BetweenTwoMeasurementsCoversBoth) {
  const ClockOffset middle = between({1.0, 0.25}, {1.5, 0.125});
  EXPECT_EQ(middle.seconds, 1.25);
  EXPECT_EQ(middle.error, 0.5);
}

}  // namespace
}  // namespace cohort::test
