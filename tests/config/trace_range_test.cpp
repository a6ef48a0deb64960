#include "config/trace_range.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

RunConfig run_of(Count steps) {
  RunConfig config;
  config.train.steps = steps;
  return config;
}

TEST(TraceRange, IsReadAsWritten) {
  EXPECT_FALSE(parse_trace_range("", run_of(20)));
  const auto some = parse_trace_range("steps=10-12", run_of(20)), one = parse_trace_range("steps=20", run_of(20));
  EXPECT_EQ(some->first, 10);
  EXPECT_EQ(some->last, 12);
  EXPECT_EQ(one->first, 20);
  EXPECT_EQ(one->last, 20);
}

TEST(TraceRange, OtherFormsAreRefused) {
  for (const char* text : {"10-12", "steps", "steps=", "steps=-3", "steps=3-", "steps=3-x", "steps=3,4", "steps=3-4-5", "step=3",
                           " steps=3", "steps= 3", "steps=1e2", "steps=+3", "steps=99999999999999999999"})
    EXPECT_ERROR(parse_trace_range(text, run_of(20)), ExitCode::usage, text, "steps=FIRST-LAST");
}

TEST(TraceRange, OtherStepsAreRefused) {
  EXPECT_ERROR(parse_trace_range("steps=0-3", run_of(20)), ExitCode::usage, "count from 1");
  EXPECT_ERROR(parse_trace_range("steps=4-3", run_of(20)), ExitCode::usage, "step 3 comes before step 4");
  EXPECT_ERROR(parse_trace_range("steps=20-21", run_of(20)), ExitCode::usage, "ends with step 20");
  EXPECT_EQ(parse_trace_range("steps=1-1000", run_of(5000))->last, 1000);
  EXPECT_ERROR(parse_trace_range("steps=1-1001", run_of(5000)), ExitCode::usage, "at most 1000");
}

}  // namespace
}  // namespace cohort
