// main of the tests that run on one rank without MPI.
#include <gtest/gtest.h>

#include "support/test_device.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const cohort::test::TestDevice device(0);
  return RUN_ALL_TESTS();
}
