#include "logs/log_reader.hpp"

#include <gtest/gtest.h>

#include "logs/log_texts.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::append;
using test::line;
using test::log_path;

std::vector<std::string> read_all(LogReader& reader, bool grows = false) {
  std::vector<std::string> texts;
  for (LogRecord record; reader.next(record, grows);) texts.push_back(record.text);
  return texts;
}

// In each test the blocks are shorter than a line, a few lines, and longer than the file.
class Reader : public testing::TestWithParam<std::size_t> {
 protected:
  LogReader reader(int rank = 0) const { return {log_path(folder_.path(), rank), rank, GetParam()}; }
  void write(std::string_view text, int rank = 0) const { append(folder_.path(), rank, text); }
  test::TemporaryFolder folder_;
};

TEST_P(Reader, FurtherLinesBelongToTheMessage) {
  const std::string first = line(1, 0, "one\n  more\n\nand more"), second = line(2, 0, "two", "warning");
  write(first + second);
  LogReader reader = this->reader();
  LogRecord record;
  ASSERT_TRUE(reader.next(record, false));
  EXPECT_EQ(record.text, first);
  EXPECT_EQ(record.what(), "one\n  more\n\nand more");
  ASSERT_TRUE(reader.next(record, false));
  EXPECT_EQ(record.text, second);
  EXPECT_EQ(record.level, LogLevel::warning);
  EXPECT_EQ(record.time, test::record(2, 0, "").time);
  EXPECT_FALSE(reader.next(record, false));
}

TEST_P(Reader, LinesThatAreNoneComeFirstOrBelongToTheLineBefore) {
  write("core dumped\n" + line(1, 0, "one") + "2025-03-01T12:00:0\n" + line(2, 0, "two"));
  LogReader reader = this->reader();
  EXPECT_EQ(read_all(reader),
            (std::vector<std::string>{"core dumped\n", line(1, 0, "one") + "2025-03-01T12:00:0\n", line(2, 0, "two")}));
}

TEST_P(Reader, ALastLineWithoutItsEndIsTakenOrLeftForLater) {
  const std::string second = line(2, 0, "two");
  write(line(1, 0, "one") + second.substr(0, 40));
  LogReader at_once = reader(), patient = reader();
  EXPECT_EQ(read_all(at_once), (std::vector<std::string>{line(1, 0, "one"), second.substr(0, 40) + "\n"}));
  EXPECT_EQ(read_all(patient, true), (std::vector<std::string>{line(1, 0, "one")}));
  EXPECT_EQ(read_all(patient, true), std::vector<std::string>{});
  write(second.substr(40));
  EXPECT_EQ(read_all(patient, true), (std::vector<std::string>{second}));
}

TEST_P(Reader, LinesThatComeLateHaveTheTimeOfTheirMessage) {
  write(line(1, 0, "one", "warning"));
  LogReader reader = this->reader();
  EXPECT_EQ(read_all(reader, true).size(), 1u);
  write("  more\n");
  LogRecord record;
  ASSERT_TRUE(reader.next(record, true));
  EXPECT_EQ(record.text, "  more\n");
  EXPECT_EQ(record.time, test::record(1, 0, "").time);
  EXPECT_EQ(record.level, LogLevel::warning);
}

TEST_P(Reader, ALogThatBeganAnewIsReadFromItsStart) {
  write(line(1, 0, "one") + line(2, 0, "a long message that makes the first file the longer one"));
  LogReader reader = this->reader();
  EXPECT_EQ(read_all(reader, true).size(), 2u);
  std::ofstream(log_path(folder_.path(), 0), std::ios::trunc) << line(3, 0, "three");
  EXPECT_EQ(read_all(reader, true), (std::vector<std::string>{line(3, 0, "three")}));
  // Another file of the same name, longer than the one before. The old one stays, so that its number is not used again.
  std::filesystem::rename(log_path(folder_.path(), 0), folder_ / "old");
  EXPECT_EQ(read_all(reader, true), std::vector<std::string>{});
  write(line(4, 0, "four") + line(5, 0, "five") + line(6, 0, "six"));
  EXPECT_EQ(read_all(reader, true).size(), 3u);
}

TEST_P(Reader, AnEndlessMessageIsCut) {
  const std::string tail(100, 'y');
  write(line(1, 0, std::string(3 * LogReader::kLongestMessage, 'x') + "\n" + tail) + line(2, 0, "two"));
  LogReader reader = this->reader();
  const std::vector<std::string> texts = read_all(reader);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_LE(texts[0].size(), LogReader::kLongestMessage + 1000);
  const std::size_t all = line(1, 0, "").size() + 3 * LogReader::kLongestMessage + 1 + tail.size();
  EXPECT_NE(texts[0].find(fmt::format("... and {} more bytes of this message", all - LogReader::kLongestMessage)),
            std::string::npos)
      << texts[0].substr(texts[0].size() - 200);
  EXPECT_EQ(texts[1], line(2, 0, "two"));
}

INSTANTIATE_TEST_SUITE_P(Blocks, Reader, testing::Values(16, 100, 1 << 16));

TEST(LogReader, SaysWhatItCannotRead) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(log_path(folder.path(), 0));  // a folder where the file should be
  LogReader reader(log_path(folder.path(), 0), 0, 100);
  LogRecord record;
  EXPECT_ERROR(reader.next(record, false), ExitCode::io, "cannot read the log", "rank_0/train.log");
}

}  // namespace
}  // namespace cohort
