#include "observe/progress.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

double now = 0.0;
double test_clock() { return now; }

// A progress line that writes into a file, and what it wrote.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() : out_(std::fopen((folder_ / "out").c_str(), "w")) { now = 0.0; }
  ~ProgressTest() override { std::fclose(out_); }
  ProgressLine::Options options(bool terminal) const {
    ProgressLine::Options result;
    result.total_steps = 100;
    result.terminal = terminal;
    result.out = out_;
    result.clock = test_clock;
    return result;
  }
  std::string written() const { return test::text_of(folder_ / "out"); }

  test::TemporaryFolder folder_;
  std::FILE* out_;
};

TEST_F(ProgressTest, PlainLinesComeEveryFewStepsAndAtTheEnd) {
  auto plain = options(false);
  plain.every = 40;
  ProgressLine progress(plain);
  for (Count step = 1; step <= 100; ++step) {
    now += 2;
    progress.update(step, 1.5, 12345);
  }
  progress.finish();
  EXPECT_EQ(written(),
            "step 40/100 (40%)  loss 1.5000  12.35K tokens/s  ETA 2 min 00 s\n"
            "step 80/100 (80%)  loss 1.5000  12.35K tokens/s  ETA 40 s\n"
            "step 100/100 (100%)  loss 1.5000  12.35K tokens/s  ETA 0 s\n");
}

TEST_F(ProgressTest, AResumedRunEstimatesFromItsOwnSteps) {
  auto plain = options(false);
  plain.first_step = 80;
  plain.unit = "samples";
  ProgressLine progress(plain);
  now += 20;
  progress.update(90, 1.5, 10);
  EXPECT_EQ(written(), "step 90/100 (90%)  loss 1.5000  10 samples/s  ETA 20 s\n");
}

TEST_F(ProgressTest, ATerminalGetsOneLineThatUpdates) {
  ProgressLine progress(options(true));
  progress.update(1, 3.0, 1);
  now += 0.01;
  progress.update(2, 2.0, 1);  // too soon: not drawn
  now += 0.2;
  progress.update(3, 1.0, 1);
  now += 0.01;
  progress.update(100, 0.5, 1);  // the last one is drawn however soon
  progress.finish();
  const std::string text = written();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 3) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.find("step 2/"), std::string::npos);
  EXPECT_NE(text.find("step 100/100"), std::string::npos);
}

TEST_F(ProgressTest, NotesStandAboveTheUpdatingLine) {
  ProgressLine progress(options(true));
  progress.note("start");
  progress.update(1, 3.0, 1);
  progress.note("validation loss 2.0");
  progress.finish();
  const std::string text = written();
  EXPECT_EQ(text.find("start\n"), 0u);
  const std::size_t note = text.find("\r\x1b[Kvalidation loss 2.0\nstep 1/100");
  EXPECT_NE(note, std::string::npos) << text;
}

TEST_F(ProgressTest, ALossThatIsNotFiniteIsShown) {
  auto plain = options(false);
  plain.every = 1;
  ProgressLine progress(plain);
  progress.update(1, NAN, 1);
  EXPECT_NE(written().find("loss nan"), std::string::npos);
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
