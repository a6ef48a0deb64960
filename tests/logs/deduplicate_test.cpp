#include "logs/deduplicate.hpp"

#include <gtest/gtest.h>

#include "logs/log_texts.hpp"

namespace cohort {
namespace {

using test::line;
using test::record;

std::string folded(std::vector<LogRecord> records) {
  std::string text;
  LogDeduplicator fold([&](LogRecord&& record) { text += record.text; });
  for (LogRecord& record : records) fold.add(std::move(record));
  fold.flush();
  return text;
}

TEST(LogDeduplicator, MakesOneOfMany) {
  EXPECT_EQ(folded({record(1, 2, "saved"), record(1.1, 0, "saved"), record(1.2, 0, "another"), record(2.0, 1, "saved")}),
            "2025-03-01T12:00:01.000Z info ranks 0-2: saved\n" + line(1.2, 0, "another"));
}

TEST(LogDeduplicator, KeepsApartWhatDiffers) {
  // Late by more than a second; of another level; said twice by one rank.
  EXPECT_EQ(folded({record(1, 0, "a"), record(2.001, 1, "a")}), line(1, 0, "a") + line(2.001, 1, "a"));
  EXPECT_EQ(folded({record(1, 0, "a"), record(1, 1, "a", "warning")}), line(1, 0, "a") + line(1, 1, "a", "warning"));
  EXPECT_EQ(folded({record(1, 0, "a"), record(1, 0, "a"), record(1, 1, "a")}),
            line(1, 0, "a") + "2025-03-01T12:00:01.000Z info ranks 0 and 1: a\n");
}

TEST(LogDeduplicator, JoinsTheLastOfThatMessage) {
  EXPECT_EQ(folded({record(1, 0, "a"), record(1.9, 0, "a"), record(2.5, 1, "a")}),
            line(1, 0, "a") + "2025-03-01T12:00:01.900Z info ranks 0 and 1: a\n");
}

TEST(LogDeduplicator, KeepsTheOrderAndTheLines) {
  EXPECT_EQ(folded({record(1, 0, "a\n b"), record(1.5, 1, "c"), record(1.9, 1, "a\n b"), record(3, 0, "d"), record(3, 1, "c")}),
            "2025-03-01T12:00:01.000Z info ranks 0 and 1: a\n b\n" + line(1.5, 1, "c") + line(3, 0, "d") + line(3, 1, "c"));
}

TEST(LogDeduplicator, HoldsBackALimitedNumber) {
  std::size_t shown = 0;
  LogDeduplicator fold([&](LogRecord&&) { ++shown; });
  constexpr std::size_t kAll = LogDeduplicator::kMostHeld + 100;
  for (std::size_t i = 0; i < kAll; ++i) fold.add(record(1, 0, fmt::format("message {}", i)));
  EXPECT_EQ(shown, 100u);
  fold.flush();
  EXPECT_EQ(shown, kAll);
}

}  // namespace
}  // namespace cohort
