#include "logs/line.hpp"

#include <gtest/gtest.h>

#include "logs/log_texts.hpp"
#include "logs/time_or_step.hpp"
#include "observe/log.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kNoon = 1740830400000;  // date -d 2025-03-01T12:00Z +%s, in milliseconds

TEST(LogLine, HasTimeLevelAndMessage) {
  const std::string text = "2025-03-01T12:00:00.250Z warning rank 31: step 12: a: b";
  const auto header = parse_header(text);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->time, kNoon + 250);
  EXPECT_EQ(header->level, LogLevel::warning);
  EXPECT_EQ(text.substr(header->length), "step 12: a: b");
}

TEST(LogLine, IsWhatRankLogWrites) {
  const test::TemporaryFolder folder;
  const std::int64_t before = now_milliseconds();
  RankLog log(folder.path(), 7, LogLevel::debug, false);
  log.debug("hello");
  const std::string text = test::text_of(log.path());
  const auto header = parse_header(text);
  ASSERT_TRUE(header) << text;
  EXPECT_GE(header->time, before);
  EXPECT_LE(header->time, now_milliseconds());
  EXPECT_EQ(header->level, LogLevel::debug);
  EXPECT_EQ(text.substr(header->length), "hello\n");
}

TEST(LogLine, AnythingElseHasNoHeader) {
  EXPECT_TRUE(parse_header("2025-03-01T12:00:00.250Z info rank 3: "));
  for (const char* text : {"", "\n", "step 3", "2025-03-01T12:00:00.250Z", "2025-03-01T12:00:00.250Z loud rank 3: a",
                           "2025-03-01T12:00:00.250Z info rank : a", "2025-03-01T12:00:00.250Z info rank 3 a",
                           "2025-02-29T12:00:00.250Z info rank 3: a", "2025-03-01T24:00:00.250Z info rank 3: a",
                           "2025-03-01 12:00:00.250Z info rank 3: a", " 2025-03-01T12:00:00.250Z info rank 3: a"}) {
    EXPECT_FALSE(parse_header(text)) << text;
  }
}

TEST(LogLine, LeapDaysCount) {
  EXPECT_EQ(parse_time("2024-02-29T00:00:00.000Z").milliseconds + 86400000, parse_time("2024-03-01T00:00:00.000Z").milliseconds);
  EXPECT_EQ(parse_time("1970-01-02T00:00:01.001Z").milliseconds, 86401001);
  EXPECT_EQ(parse_time("2025-13-01T00:00:00.000Z").fault, 5u);
  EXPECT_EQ(parse_time("2025-04-31T00:00:00.000Z").fault, 8u);
  EXPECT_EQ(parse_time("2025-04-30T00:60:00.000Z").fault, 14u);
}

TEST(LogLine, SpeaksOfAStep) {
  EXPECT_EQ(step_in("step 12 loss 3.1"), 12);
  EXPECT_EQ(step_in("stopping after step 7: SIGTERM"), 7);
  EXPECT_EQ(step_in("rank 2 is slow (steps 20 to 29)"), 20);
  EXPECT_EQ(step_in("misstep 3, then step 4"), 4);
  EXPECT_EQ(step_in("step by step"), std::nullopt);
  EXPECT_EQ(step_in("step -4"), std::nullopt);
  EXPECT_EQ(step_in("step "), std::nullopt);
  EXPECT_EQ(step_in("step 99999999999999999999"), std::nullopt);
}

TEST(TimeOrStep, IsAStepATimeOrHowLongAgo) {
  const auto time = [](std::string_view text) { return parse_time_or_step(text, "--since", kNoon).time; };
  EXPECT_EQ(parse_time_or_step("step:100", "--since", 0).step, 100);
  EXPECT_EQ(parse_time_or_step("10m", "--since", kNoon).step, std::nullopt);
  EXPECT_EQ(time("90s"), kNoon - 90000);
  EXPECT_EQ(time("10m"), kNoon - 600000);
  EXPECT_EQ(time("2h"), kNoon - 7200000);
  EXPECT_EQ(time("1d"), kNoon - 86400000);
  EXPECT_EQ(time("2025-03-01T12:00:00.250Z"), kNoon + 250);
  EXPECT_EQ(time("2025-03-01T12:00:07"), kNoon + 7000);
  EXPECT_EQ(time("2025-03-01 12:01"), kNoon + 60000);
  EXPECT_EQ(time("2025-03-01"), kNoon - 12 * 3600000);
}

TEST(TimeOrStep, OthersAreRefusedWithThePosition) {
  const auto expect = [](const char* text, const char* part) {
    EXPECT_ERROR(parse_time_or_step(text, "--since", kNoon), ExitCode::usage, "--since", part, "step:100", "2025-03-01T12:00",
                 "10m");
  };
  expect("yesterday", "at character 1");
  expect("step:", "at character 6");
  expect("step:12x", "at character 8");
  expect("10", "at character 3");
  expect("10w", "at character 3");
  expect("10m5", "at character 4");
  expect("2025-13-01", "at character 6");
  expect("2025-03-01T12", "ends too early at character 14");
  expect("2025-03-01T12:00:00.250Zx", "at character 25");
  expect("9000000000000000000d", "too long ago");
}

}  // namespace
}  // namespace cohort
