#include "observe/progress.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "observe/sparkline.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

double now = 0.0;
double test_clock() { return now; }

// A table that is written into a file, and what was written.
class ProgressTest : public ::testing::Test {
 public:
  ~ProgressTest() override { std::fclose(out_); }

 protected:
  ProgressTest() : out_(std::fopen((folder_ / "out").c_str(), "w")) { now = 0.0; }
  ProgressTable::Options options(bool terminal) const {
    ProgressTable::Options result;
    result.total_steps = 100;
    result.terminal = terminal;
    result.utf8 = true;
    result.columns = 100;
    result.out = out_;
    result.clock = test_clock;
    return result;
  }
  static ProgressFigures step(Count number, double loss = 1.5) {
    return {.step = number,
            .units = 1000.0 * static_cast<double>(number),
            .loss = loss,
            .learning_rate = 3e-4,
            .gradient_norm = 12.345,
            .rate = 12345.0};
  }
  std::string written() const { return test::text_of(folder_ / "out"); }
  std::vector<std::string> lines() const { return split(written(), '\n'); }

  test::TemporaryFolder folder_;
  std::FILE* out_;
};

TEST_F(ProgressTest, RowsComeFirstEveryFewStepsAndAtTheEnd) {
  auto plain = options(false);
  plain.every = 40;
  ProgressTable progress(plain);
  for (Count number = 1; number <= 100; ++number) {
    now += 2;
    ProgressFigures figures = step(number);
    if (number == 40) figures.memory = 3 * kGiB / 2;
    if (number == 50) figures.validation = 1.625;
    progress.update(figures);
  }
  progress.finish();
  EXPECT_EQ(written(),
            "   step    tokens     loss  val loss        lr     norm   tokens/s     memory         ETA\n"
            "      1     1.00K   1.5000            3.00e-04   12.345     12.35K             3 min 18 s\n"
            "     40    40.00K   1.5000            3.00e-04   12.345     12.35K    1.5 GiB  2 min 00 s\n"
            "     50    50.00K   1.5000    1.6250  3.00e-04   12.345     12.35K             1 min 40 s\n"
            "     80    80.00K   1.5000            3.00e-04   12.345     12.35K                   40 s\n"
            "    100   100.00K   1.5000            3.00e-04   12.345     12.35K                    0 s\n");
}

TEST_F(ProgressTest, TheWidestRowFits100Columns) {
  auto plain = options(false);
  plain.has_mfu = true;
  plain.total_steps = 1'000'000;
  ProgressTable progress(plain);
  ProgressFigures figures{.step = 1'000'000,
                          .units = 123.45e12,
                          .loss = 1e5,
                          .validation = 1234.5,
                          .learning_rate = 1e-10,
                          .gradient_norm = 123456.0,
                          .rate = 123.45e6,
                          .mfu = 0.5123,
                          .memory = 1023 * kGiB};
  progress.update(figures);
  EXPECT_NE(written().find("51.2%"), std::string::npos);
  for (const std::string& line : lines()) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(ProgressTest, AResumedRunEstimatesFromItsOwnSteps) {
  auto plain = options(false);
  plain.first_step = 80;
  plain.unit = "samples";
  ProgressTable progress(plain);
  now += 20;
  progress.update(step(90));
  EXPECT_NE(written().find("samples/s"), std::string::npos);
  EXPECT_EQ(lines()[1].substr(lines()[1].size() - 5), " 20 s");
}

TEST_F(ProgressTest, ATerminalGetsALineThatUpdatesBelowTheTable) {
  ProgressTable progress(options(true));
  progress.update(step(1, 3.0));
  now += 0.01;
  progress.update(step(2, 2.0));  // too soon: not drawn
  now += 0.2;
  progress.update(step(3, 1.0));
  now += 0.01;
  progress.update(step(100, 0.5));  // the last one is drawn however soon
  progress.finish();
  const std::string text = written();
  EXPECT_EQ(text.find("step 2/"), std::string::npos);
  EXPECT_NE(text.find("step 3/100  ╌"), std::string::npos) << text;
  EXPECT_NE(text.find("step 100/100  ━"), std::string::npos) << text;
  EXPECT_NE(text.find("step 100/100"), std::string::npos);
  EXPECT_NE(text.find("█▅▂▁"), std::string::npos) << "the course of the loss: " << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << "header, two rows, and the end of the line: " << text;
}

TEST_F(ProgressTest, WhatDoesNotFitTheTerminalIsLeftOut) {
  for (const int columns : {99, 78, 60, 30}) {
    auto narrow = options(true);
    narrow.columns = columns;
    narrow.utf8 = false;
    ProgressTable progress(narrow);
    progress.update(step(50));
    progress.finish();
    const std::string text = written();
    const std::string line = text.substr(text.rfind("\x1b[K") + 3);
    EXPECT_LT(line.size(), static_cast<std::size_t>(columns) + 1) << line;
    EXPECT_EQ(line.find("#####") != std::string::npos, columns >= 78) << line;
  }
}

TEST_F(ProgressTest, ALongRunHasAboutTwentyRowsOnATerminal) {
  auto long_run = options(true);
  long_run.total_steps = 10'000;
  long_run.every = 30;
  const ProgressTable progress(long_run);
  Count rows = 0;
  for (Count number = 1; number <= 10'000; ++number) rows += progress.has_row(number) ? 1 : 0;
  EXPECT_GE(rows, 15);
  EXPECT_LE(rows, 22);
}

TEST_F(ProgressTest, NotesStandAboveTheUpdatingLine) {
  ProgressTable progress(options(true));
  progress.note("start");
  progress.update(step(1));
  progress.note("rank 2 is slow");
  progress.finish();
  const std::string text = written();
  EXPECT_EQ(text.find("start\n"), 0u);
  EXPECT_NE(text.find("\r\x1b[Krank 2 is slow\nstep 1/100"), std::string::npos) << text;
}

TEST_F(ProgressTest, ALossThatIsNotFiniteIsShown) {
  ProgressTable progress(options(false));
  progress.update(step(1, NAN));
  EXPECT_NE(written().find(" nan "), std::string::npos);
  EXPECT_EQ(written().find("-nan"), std::string::npos);
}

TEST(Sparkline, IsScaledToItsValues) {
  EXPECT_EQ(sparkline(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(std::vector<double>{5, 5}), "▁▁");
  EXPECT_EQ(sparkline(std::vector<double>{1, NAN, 2}), "▁ █");
  EXPECT_EQ(sparkline({}), "");
}

TEST(RunningCurveTest, KeepsFewMeansOfManyNumbers) {
  RunningCurve curve(4);
  EXPECT_TRUE(curve.values().empty());
  for (int i = 0; i < 6; ++i) curve.add(i);
  curve.add(NAN);
  EXPECT_EQ(curve.values(), (std::vector<double>{0.5, 2.5, 4.5}));
  for (int i = 6; i < 1000; ++i) curve.add(i);
  const std::vector<double> means = curve.values();
  ASSERT_LE(means.size(), 4u);
  ASSERT_GE(means.size(), 2u);
  EXPECT_TRUE(std::is_sorted(means.begin(), means.end()));
  EXPECT_GT(means.back(), 600.0);
}

TEST(StdoutIsTerminal, AFileIsNone) {
  const test::TemporaryFolder folder;
  std::fflush(stdout);
  const int saved = ::dup(STDOUT_FILENO);
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  ASSERT_GE(::dup2(::fileno(file), STDOUT_FILENO), 0);
  const bool terminal = stdout_is_terminal();
  ASSERT_GE(::dup2(saved, STDOUT_FILENO), 0);
  ::close(saved);
  std::fclose(file);
  EXPECT_FALSE(terminal);
}

}  // namespace
}  // namespace cohort
