#include "observe/log.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "observe/clock.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;
using test::text_of;

TEST(RankLog, WritesWhoWhenAndWhat) {
  const TemporaryFolder folder;
  RankLog log(folder.path(), 3, LogLevel::info, false);
  log.info("step {}", 7);
  EXPECT_EQ(log.path(), folder / "logs/rank_3/train.log");
  // Read while the log is open: the line must have been flushed.
  EXPECT_TRUE(
      std::regex_match(text_of(log.path()), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info rank 3: step 7\n)")))
      << text_of(log.path());
}

TEST(RankLog, LeavesOutWhatIsBelowItsLevel) {
  const TemporaryFolder folder;
  const auto lines = [&](LogLevel level) {
    RankLog log(folder.path(), 0, level, false);
    log.debug("a");
    log.info("b");
    log.warning("c");
    const std::string text = text_of(log.path());
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(LogLevel::debug), 3);
  EXPECT_EQ(lines(LogLevel::info), 2);
  EXPECT_EQ(lines(LogLevel::warning), 1);
}

TEST(RankLog, AppendsOnResumeAndStartsEmptyOtherwise) {
  const TemporaryFolder folder;
  RankLog(folder.path(), 0, LogLevel::info, false).info("first");
  RankLog(folder.path(), 0, LogLevel::info, true).info("second");
  std::string text = text_of(folder / "logs/rank_0/train.log");
  EXPECT_LT(text.find("first"), text.find("second"));
  RankLog(folder.path(), 0, LogLevel::info, false).info("third");
  text = text_of(folder / "logs/rank_0/train.log");
  EXPECT_EQ(text.find("first"), std::string::npos);
  EXPECT_NE(text.find("third"), std::string::npos);
}

// The line that says what ended the run, after the log has been closed, or beside it.
TEST(RankLog, ErrorsAreAddedToTheLastLog) {
  const TemporaryFolder folder;
  const auto text = [&] { return text_of(folder / "logs/rank_3/train.log"); };
  {
    RankLog log(folder.path(), 3, LogLevel::warning, false);
    log_error("from another thread");
    log.warning("after it");
  }
  log_error("the end");
  EXPECT_TRUE(std::regex_match(text(), std::regex(R"(\S+Z error rank 3: from another thread\n\S+Z warning rank 3: after it\n)"
                                                  R"(\S+Z error rank 3: the end\n)")))
      << text();
  std::filesystem::remove_all(folder / "logs");
  log_error("nowhere to write");
}

TEST(RankLog, LinesOfThreadsDoNotMix) {
  const TemporaryFolder folder;
  RankLog log(folder.path(), 0, LogLevel::info, false);
  const auto work = [&](char letter) {
    for (int i = 0; i < 200; ++i) log.info("{}", std::string(300, letter));
  };
  std::thread other(work, 'a');
  work('b');
  other.join();
  std::ifstream file(log.path());
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const std::string message = line.substr(line.find(": ") + 2);
    ASSERT_EQ(message, std::string(300, message.at(0)));
  }
  EXPECT_EQ(lines, 400);
}

TEST(RankLog, SaysWhereItCannotWrite) {
  const TemporaryFolder folder;
  std::ofstream(folder / "logs") << "a file where the folder should be";
  EXPECT_ERROR(RankLog(folder.path(), 0, LogLevel::info, false), ExitCode::io, "logs");
  EXPECT_ERROR(log_level_from_name("loud"), ExitCode::config, "loud", "debug, info, warning");
  EXPECT_EQ(log_level_from_name("warning"), LogLevel::warning);
}

}  // namespace
}  // namespace cohort
