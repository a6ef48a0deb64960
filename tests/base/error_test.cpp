#include "base/error.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

TEST(Error, CarriesCodeAndMessage) {
  EXPECT_ERROR(fail(ExitCode::data, "{}: {} tokens", "x.bin", 3), ExitCode::data, "x.bin: 3 tokens");
}

TEST(Check, NamesExpressionFileAndLine) {
  const int size = 3;
  EXPECT_ERROR(COHORT_CHECK(size == 4, "size is {}", size), ExitCode::internal, "size is 3", "size == 4", "error_test.cpp:");
  EXPECT_NO_THROW(COHORT_CHECK(size == 3, "size is {}", size));
}

TEST(SharedError, IsAnError) { EXPECT_THROW(throw SharedError(ExitCode::io, "x"), Error); }

}  // namespace
}  // namespace cohort
