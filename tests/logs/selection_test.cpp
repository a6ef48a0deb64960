#include "logs/selection.hpp"

#include <gtest/gtest.h>

#include "logs/log_texts.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

using test::record;
using Verdict = LogGate::Verdict;

TimeOrStep step(Count number) { return {.step = number}; }
TimeOrStep time_of(double seconds) { return {.time = record(seconds, 0, "").time}; }

TEST(RankRanges, AreNumbersAndRanges) {
  LogSelection selection{.ranks = parse_rank_ranges("2,4-6", "--rank")};
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(selection.wants(rank), rank == 2 || (rank >= 4 && rank <= 6)) << rank;
  EXPECT_TRUE(LogSelection{}.wants(12345));
}

TEST(RankRanges, OthersAreRefusedWithThePosition) {
  const auto expect = [](const char* text, const char* part) {
    EXPECT_ERROR(parse_rank_ranges(text, "--rank"), ExitCode::usage, "--rank", part, "2,4-7");
  };
  expect("", "at character 1");
  expect("two", "at character 1");
  expect("2,", "at character 3");
  expect("2,x", "at character 3");
  expect("2,5-3", "ends before it begins at character 3");
  expect("2;3", "at character 1");
  expect("2-", "at character 1");
  expect("-1", "at character 1");
  expect("99999999999", "at character 1");
}

TEST(LogGate, OpensAtAStepForGood) {
  const LogSelection selection{.since = step(10)};
  LogGate gate(selection);
  EXPECT_EQ(gate.decide(record(1, 0, "step 9")), Verdict::leave);
  EXPECT_EQ(gate.decide(record(2, 0, "in between")), Verdict::leave);
  EXPECT_EQ(gate.decide(record(3, 0, "step 11")), Verdict::take);
  EXPECT_EQ(gate.decide(record(4, 0, "in between")), Verdict::take);
  EXPECT_EQ(gate.decide(record(5, 0, "from step 5: it went back to a checkpoint")), Verdict::take);
}

TEST(LogGate, EndsAfterAStep) {
  const LogSelection selection{.until = step(10)};
  LogGate gate(selection);
  EXPECT_EQ(gate.decide(record(1, 0, "hello")), Verdict::take);
  EXPECT_EQ(gate.decide(record(2, 0, "step 10")), Verdict::take);
  EXPECT_EQ(gate.decide(record(3, 0, "said after step ten")), Verdict::take);
  EXPECT_EQ(gate.decide(record(4, 0, "step 11")), Verdict::end);
}

TEST(LogGate, TakesTimesFromToIncluded) {
  const LogSelection selection{.since = time_of(2), .until = time_of(3)};
  LogGate gate(selection);
  EXPECT_EQ(gate.decide(record(1.999, 0, "a")), Verdict::leave);
  EXPECT_EQ(gate.decide(record(2, 0, "b")), Verdict::take);
  EXPECT_EQ(gate.decide(record(3, 0, "c")), Verdict::take);
  EXPECT_EQ(gate.decide(record(3.001, 0, "d")), Verdict::end);
}

TEST(LogGate, TakesLevelsAndPatterns) {
  const LogSelection selection{.level = LogLevel::info, .pattern = std::make_shared<Pattern>("^(saved|lost)$", "--grep")};
  LogGate gate(selection);
  EXPECT_EQ(gate.decide(record(1, 0, "saved", "debug")), Verdict::leave);
  EXPECT_EQ(gate.decide(record(1, 0, "saved", "info")), Verdict::take);
  EXPECT_EQ(gate.decide(record(1, 0, "lost", "warning")), Verdict::take);
  EXPECT_EQ(gate.decide(record(1, 0, "saved it", "warning")), Verdict::leave);
  EXPECT_EQ(gate.decide(record(1, 0, "a message of\nmany lines\nsaved", "info")), Verdict::take);
  // The header is no part of the message.
  const LogSelection header{.pattern = std::make_shared<Pattern>("rank|info|2025", "--grep")};
  EXPECT_EQ(LogGate(header).decide(record(1, 0, "saved")), Verdict::leave);
}

TEST(Pattern, WorksOnLongLines) {
  // std::regex overflows the stack here.
  const Pattern pattern("^(a|b)*c$", "--grep");
  const std::string text(1 << 18, 'a');
  EXPECT_FALSE(pattern.matches(text));
  EXPECT_TRUE(pattern.matches(text + 'c'));
  EXPECT_FALSE(pattern.matches(""));
}

TEST(Pattern, SaysWhereItIsWrong) {
  const auto expect = [](const char* text, const char* part) {
    EXPECT_ERROR(Pattern(text, "--grep"), ExitCode::usage, "--grep", text, part, "grep -E");
  };
  expect("step (1|2", "at character 6");
  expect("[a", "at character 1");
  expect("loss [0-9", "at character 6");
  expect("(a)(b", "at character 4");
  expect("a{2,1}", "at character 2");
}

}  // namespace
}  // namespace cohort
