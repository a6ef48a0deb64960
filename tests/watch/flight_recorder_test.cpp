// The ring of operations: what is in flight, what is waited for, and what happens when it is full.
#include "observe/flight_recorder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

double now = 0.0;
double test_clock() { return now; }

OperationRecord all_reduce(std::uint64_t number) {
  return {.operation = "all_reduce", .group = "dp", .number = number, .elements = 5, .dtype = DType::f32};
}

class FlightRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override { now = 100.0; }
  FlightRecorder recorder_{test_clock};
};

TEST_F(FlightRecorderTest, AnOperationFromStartToEnd) {
  recorder_.set_step(14);
  const auto id = recorder_.begin(all_reduce(1));
  EXPECT_TRUE(recorder_.state().waiting.empty()) << "in flight, but nobody waits for it";
  now = 103.0;
  recorder_.wait(id);
  now = 105.0;
  const auto waiting = recorder_.state();
  ASSERT_EQ(waiting.waiting.size(), 1U);
  EXPECT_EQ(waiting.waiting[0].step, 14);
  EXPECT_EQ(waiting.now - waiting.waiting[0].waiting_since, 2.0);
  EXPECT_FALSE(waiting.finished);
  recorder_.finish(id);
  const auto done = recorder_.state();
  EXPECT_TRUE(done.waiting.empty());
  ASSERT_TRUE(done.finished);
  EXPECT_EQ(done.finished->number, 1U);
  EXPECT_EQ(done.finished->finished, 105.0);
}

TEST_F(FlightRecorderTest, ProgressCountsAllThatHappens) {
  std::uint64_t last = recorder_.progress();
  const auto moved = [&] { return recorder_.progress() != std::exchange(last, recorder_.progress()); };
  EXPECT_FALSE(moved());
  const auto id = recorder_.begin(all_reduce(1));
  EXPECT_TRUE(moved());
  recorder_.wait(id);
  EXPECT_TRUE(moved());
  recorder_.finish(id);
  EXPECT_TRUE(moved());
  recorder_.set_step(1);
  EXPECT_TRUE(moved());
  recorder_.set_activity("forward");
  EXPECT_TRUE(moved());
  recorder_.beat();
  EXPECT_TRUE(moved());
  recorder_.state();
  recorder_.records();
  EXPECT_FALSE(moved()) << "looking is no progress";
}

TEST_F(FlightRecorderTest, ALongCallGoesOnForALimitedTime) {
  const auto moves_in = [&](double seconds) {
    const std::uint64_t before = recorder_.progress();
    now += seconds;
    return recorder_.progress() != before;
  };
  recorder_.set_activity("checkpoint");
  EXPECT_FALSE(moves_in(10.0));
  {
    const FlightRecorder::LongCall outer("writing to disk", recorder_);
    EXPECT_EQ(recorder_.state().activity, "writing to disk");
    EXPECT_TRUE(moves_in(10.0));
    { const FlightRecorder::LongCall inner("removing a folder", recorder_); }
    EXPECT_TRUE(moves_in(FlightRecorder::kLongestCall));
    EXPECT_FALSE(moves_in(10.0)) << "a disk that never answers";
  }
  EXPECT_EQ(recorder_.state().activity, "checkpoint");
  EXPECT_FALSE(moves_in(10.0));
}

TEST_F(FlightRecorderTest, TheLastThatEndedAreKept) {
  for (std::uint64_t n = 1; n <= 3 * FlightRecorder::kRecords; ++n) recorder_.finish(recorder_.begin(all_reduce(n)));
  const auto records = recorder_.records();
  ASSERT_EQ(records.size(), FlightRecorder::kRecords);
  EXPECT_EQ(records.front().number, 2 * FlightRecorder::kRecords + 1);
  EXPECT_EQ(records.back().number, 3 * FlightRecorder::kRecords);
}

// The one that hangs, while others are begun after it, some of which end: it is what must be told.
TEST_F(FlightRecorderTest, WhatIsInFlightIsKeptHoweverManyBeginAfterIt) {
  constexpr std::uint64_t kMany = 4 * FlightRecorder::kRecords;
  const auto first = recorder_.begin(all_reduce(1));
  now = 101.0;
  recorder_.wait(first);
  for (std::uint64_t n = 2; n <= kMany; ++n) recorder_.finish(recorder_.begin(all_reduce(n)));
  auto records = recorder_.records();
  ASSERT_EQ(records.size(), FlightRecorder::kRecords + 1);
  EXPECT_EQ(records[0].number, 1U);
  EXPECT_EQ(records[1].number, kMany - FlightRecorder::kRecords + 1);
  ASSERT_EQ(recorder_.state().waiting.size(), 1U);
  EXPECT_EQ(recorder_.state().waiting[0].waiting_since, 101.0);
  now = 105.0;
  recorder_.finish(first);
  EXPECT_EQ(recorder_.records().size(), FlightRecorder::kRecords) << "it makes room";
  EXPECT_TRUE(recorder_.state().waiting.empty());
  ASSERT_TRUE(recorder_.state().finished);
  EXPECT_EQ(recorder_.state().finished->number, 1U) << "the last to end";
  EXPECT_EQ(recorder_.state().finished->finished, 105.0);
  recorder_.finish(first);  // has no place any more
  EXPECT_EQ(recorder_.records().size(), FlightRecorder::kRecords);
}

// A host that runs ahead of a device that hangs.
TEST_F(FlightRecorderTest, TheLastToEndIsKnownHoweverManyBeginAfterIt) {
  const auto first = recorder_.begin(all_reduce(1));
  recorder_.finish(recorder_.begin(all_reduce(2)));
  for (std::uint64_t n = 3; n <= 3 * FlightRecorder::kRecords; ++n) recorder_.begin(all_reduce(n));
  ASSERT_TRUE(recorder_.state().finished);
  EXPECT_EQ(recorder_.state().finished->number, 2U);
  recorder_.finish(first);
  EXPECT_EQ(recorder_.state().finished->number, 1U);
}

// As on a device, whose operations end long after the host began the next ones.
TEST_F(FlightRecorderTest, AStepOfOperationsInFlight) {
  constexpr std::uint64_t kStep = 20000;
  std::vector<FlightRecorder::Id> ids;
  for (std::uint64_t n = 1; n <= kStep; ++n) {
    ids.push_back(recorder_.begin(all_reduce(n)));
    recorder_.wait(ids.back());
  }
  const auto numbers = [&] {
    std::vector<std::uint64_t> all;
    for (const OperationRecord& record : recorder_.records()) all.push_back(record.number);
    return all;
  };
  const auto in_flight = numbers();
  ASSERT_EQ(in_flight.size(), kStep);
  EXPECT_TRUE(std::is_sorted(in_flight.begin(), in_flight.end()));
  static std::uint64_t told = 0;
  told = 0;
  recorder_.on_finish([](const OperationRecord&) { ++told; });
  for (std::uint64_t n = 1; n <= kStep; ++n) {
    recorder_.finish(ids[n - 1]);
    if (n % 1000 == 0) {
      ASSERT_EQ(recorder_.state().finished->number, n);
    }
  }
  EXPECT_EQ(told, kStep) << "none is missing in a trace";
  EXPECT_EQ(numbers().size(), FlightRecorder::kRecords);
  EXPECT_TRUE(recorder_.state().waiting.empty());
}

TEST_F(FlightRecorderTest, TheOldestComesFirst) {
  const auto a = recorder_.begin(all_reduce(1));
  const auto b = recorder_.begin(all_reduce(2));
  recorder_.wait(b);
  now = 101.0;
  recorder_.wait(a);
  const auto state = recorder_.state();
  ASSERT_EQ(state.waiting.size(), 2U);
  EXPECT_EQ(state.waiting[0].number, 2U) << "of those that are waited for, by when that began";
}

TEST_F(FlightRecorderTest, StepAndActivityAreKeptInAFile) {
  const TemporaryFolder folder;
  const auto kept = [&] { return read_kept_state(folder / "last"); };
  EXPECT_FALSE(kept());
  recorder_.keep_in(folder / "last");
  recorder_.set_step(5);
  recorder_.set_activity("a rather long activity");
  recorder_.set_activity("forward");
  ASSERT_TRUE(kept());
  EXPECT_EQ(kept()->process, getpid());
  EXPECT_EQ(kept()->step, 5);
  EXPECT_EQ(kept()->activity, "forward");
  EXPECT_EQ(kept()->changes, recorder_.state().changes);
  {
    const FlightRecorder::LongCall call("removing a folder", recorder_);
    EXPECT_EQ(kept()->activity, "removing a folder");
  }
  EXPECT_EQ(kept()->activity, "forward");
  recorder_.keep_in(folder / "absent/last");
  recorder_.set_step(6);  // nobody minds
  EXPECT_EQ(kept()->step, 5);
  std::ofstream(folder / "last") << "{\"process\": 1, \"st";
  EXPECT_FALSE(kept()) << "not whole";
}

TEST_F(FlightRecorderTest, NoRecordIsFine) {
  recorder_.wait(FlightRecorder::kNone);
  recorder_.finish(FlightRecorder::kNone);
  EXPECT_FALSE(recorder_.state().finished);
}

TEST_F(FlightRecorderTest, WhatPeopleRead) {
  auto record = all_reduce(88);
  record.site = std::source_location::current();
  EXPECT_NE(record.str().find("all_reduce of 5 fp32 on 'dp' (number 88, flight_recorder_test.cpp:"), std::string::npos)
      << record.str();
  record.operation = "recv";
  record.peer = 2;
  EXPECT_NE(record.str().find("recv of 5 fp32 from rank 2 on 'dp' (flight_recorder_test.cpp:"), std::string::npos)
      << record.str();
}

}  // namespace
}  // namespace cohort::test
