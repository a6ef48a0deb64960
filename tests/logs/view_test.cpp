#include "logs/view.hpp"

#include <gtest/gtest.h>

#include "logs/log_texts.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::append;
using test::line;

constexpr auto kNever = [] { return false; };

std::string shown(const LogViewOptions& options) {
  std::string text;
  show_logs(
      options, [&](std::string_view more) { text += more; }, kNever);
  return text;
}

TEST(LogView, ShowsTheLastOfWhatIsWanted) {
  const test::TemporaryFolder run;
  append(run.path(), 0, line(1, 0, "a") + line(3, 0, "b", "warning"));
  append(run.path(), 1, line(2, 1, "c", "warning") + line(3.5, 1, "b", "warning") + line(9, 1, "d"));
  EXPECT_EQ(shown({.run = run.path(), .selection = {.level = LogLevel::warning}, .last = 2}),
            line(3, 0, "b", "warning") + line(3.5, 1, "b", "warning"));
  // The last of what is shown: folded messages are one.
  EXPECT_EQ(shown({.run = run.path(), .selection = {.level = LogLevel::warning}, .last = 2, .fold = true}),
            line(2, 1, "c", "warning") + "2025-03-01T12:00:03.000Z warning ranks 0 and 1: b\n");
  EXPECT_EQ(shown({.run = run.path(), .last = 0}), "");
  EXPECT_EQ(shown({.run = run.path(), .last = 99}), shown({.run = run.path()}));
}

TEST(LogView, FollowsUntilItIsEnded) {
  const test::TemporaryFolder run;
  append(run.path(), 0, line(1, 0, "old") + line(2, 0, "a"));
  std::string text;
  int asked = 0;
  // Between the looks the logs grow, and a new one appears.
  const auto ended = [&] {
    if (text == line(2, 0, "a")) append(run.path(), 1, line(3, 1, "b"));
    return text.size() > line(2, 0, "a").size() || ++asked > 1000;
  };
  show_logs(
      {.run = run.path(), .last = 1, .follow = true}, [&](std::string_view more) { text += more; }, ended);
  EXPECT_EQ(text.substr(0, line(2, 0, "a").size() + line(3, 1, "b").size()), line(2, 0, "a") + line(3, 1, "b"));
}

TEST(LogView, SaysWhatIsMissing) {
  const test::TemporaryFolder folder;
  const auto run = folder / "demo";
  EXPECT_ERROR(shown({.run = run}), ExitCode::io, "demo", "no such folder");
  std::filesystem::create_directories(run);
  EXPECT_ERROR(shown({.run = folder / "dem"}), ExitCode::io, "did you mean", "/demo?");
  EXPECT_ERROR(shown({.run = run}), ExitCode::io, "logs/rank_N/train.log", "--follow");
  for (int rank = 0; rank < 4; ++rank) append(run, rank, line(1, rank, "a"));
  const auto with_ranks = [&](const char* ranks) {
    return LogViewOptions{.run = run, .selection = {.ranks = parse_rank_ranges(ranks, "--rank")}};
  };
  EXPECT_ERROR(shown(with_ranks("2,7")), ExitCode::usage, "rank 7 has no log", "ranks 0-3 have one");
  EXPECT_ERROR(shown(with_ranks("3-5")), ExitCode::usage, "ranks 4 and 5 have no log");
  EXPECT_ERROR(shown(with_ranks("3-2147483647")), ExitCode::usage, "ranks 4-11 have no log");
  EXPECT_EQ(shown(with_ranks("2")), line(1, 2, "a"));
}

}  // namespace
}  // namespace cohort
