// Stop signals set a flag and nothing else; the second Ctrl-C ends the process.
#include "runtime/signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace cohort {
namespace {

class Signals : public ::testing::Test {
 protected:
  void SetUp() override {
    install_stop_signals();
    clear_stop_request();
  }
  void TearDown() override { clear_stop_request(); }
};

TEST_F(Signals, EachStopSignalSetsTheFlag) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    clear_stop_request();
    EXPECT_FALSE(stop_requested());
    ASSERT_EQ(std::raise(signal), 0);
    EXPECT_TRUE(stop_requested());
    EXPECT_EQ(stop_signal(), signal);
  }
}

TEST_F(Signals, TheFirstSignalIsKept) {
  std::raise(SIGUSR1);
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGUSR1);
}

TEST_F(Signals, Names) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(0), "no stop signal");
}

// A read in progress is not cut short: libraries that do not expect EINTR go on working.
TEST_F(Signals, BlockedReadsGoOn) {
  struct sigaction installed = {};
  ASSERT_EQ(sigaction(SIGUSR1, nullptr, &installed), 0);
  EXPECT_TRUE(installed.sa_flags & SA_RESTART);
}

TEST_F(Signals, TheSecondInterruptEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        install_stop_signals();
        std::raise(SIGINT);
        if (!stop_requested()) _exit(1);
        std::raise(SIGINT);
        _exit(2);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace cohort
