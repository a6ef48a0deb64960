// The monitors of three ranks, in one process: strangers at the door, and a rank that sends what cannot be read.
#include "watch/monitor.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

#include "observe/clock.hpp"
#include "support/temporary_folder.hpp"
#include "watch/strangers.hpp"

namespace cohort::test {
namespace {

class MonitorTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr double kTimeout = 2.0;

  void SetUp() override {
    allow_many_files();
    for (int rank = 0; rank < kRanks; ++rank) monitors_.push_back(std::make_unique<Monitor>(options(rank)));
    address_ = monitors_[0]->open();
    const auto json = nlohmann::json::parse(address_);
    token_ = json.at("token").get<std::string>();
    endpoint_ = {json.at("endpoints").at(0).at(0), json.at("endpoints").at(0).at(1)};
  }
  Monitor::Options options(int rank) {
    return {.rank = rank,
            .size = kRanks,
            .host = "here",
            .addresses = {"127.0.0.1"},
            .timeout = kTimeout,
            .end_job = [this] { ended_ = true; },
            .say =
                [this](const std::string& text) {
                  const std::lock_guard lock(mutex_);
                  said_ += text + "\n";
                }};
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  // All ranks move, for so long or until the job ends.
  void work(double seconds) {
    const double end = steady_seconds() + seconds;
    while (steady_seconds() < end && !ended_) {
      FlightRecorder::of_process().beat();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::mutex mutex_;
  std::string said_;
  std::atomic<bool> ended_ = false;
  std::string address_, token_;
  Endpoint endpoint_;
  std::vector<std::unique_ptr<Monitor>> monitors_;
};

TEST_F(MonitorTest, StrangersNeitherDelayNorChangeAVerdict) {
  const Strangers strangers(endpoint_, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  for (int rank = 1; rank < kRanks; ++rank) EXPECT_TRUE(monitors_[static_cast<std::size_t>(rank)]->connect(address_)) << rank;
  for (auto& monitor : monitors_) monitor->start();
  work(2.0 * kTimeout);
  EXPECT_FALSE(ended_);
  EXPECT_EQ(said(), "");
  EXPECT_GT(strangers.knocks(), 800);
  EXPECT_EQ(knock(endpoint_), -1) << "all are in: nobody listens any more";
}

TEST_F(MonitorTest, WhatCannotBeReadIsDroppedAndSaidOnce) {
  ASSERT_TRUE(monitors_[1]->connect(address_));
  LineSocket broken = LineSocket::connect({endpoint_}, to_line({2, "here", getpid()}, token_), Rendezvous::kWelcome, 5.0);
  ASSERT_TRUE(broken.is_open());
  monitors_[0]->start();
  monitors_[1]->start();
  const double begin = steady_seconds();
  for (const char* line :
       {"{", "[1]", "7", R"({"beat":"x"})", R"({"beat":1,"step":[],"doing":1})", R"({"report":{"rank":9}})", "\xff"})
    broken.send(line);
  // It goes on to send beats as it should: it is not lost.
  while (steady_seconds() < begin + 1.5 * kTimeout && !ended_) {
    broken.send(R"({"beat":1,"step":5,"doing":"forward","changes":2})");
    work(0.05);
  }
  EXPECT_FALSE(ended_) << said();
  EXPECT_NE(said().find("rank 2 sent the monitor an unreadable message"), std::string::npos) << said();
  EXPECT_EQ(said().find("rank 2"), said().rfind("rank 2")) << said();
  broken.close();
  work(kTimeout);
  EXPECT_TRUE(ended_);
  EXPECT_NE(said().find("rank 2 of 3 on here"), std::string::npos) << said();
  EXPECT_NE(said().find("at step 5: forward"), std::string::npos) << said();
}

// Killed before it could say so: what its recorder has kept is newer than its last beat.
TEST_F(MonitorTest, TheStepOfALostRankIsThatOfItsRecorder) {
  const TemporaryFolder folder;
  ASSERT_TRUE(monitors_[1]->connect(address_));
  LineSocket lost = LineSocket::connect({endpoint_}, to_line({2, "here", getpid()}, token_), Rendezvous::kWelcome, 5.0);
  ASSERT_TRUE(lost.is_open());
  monitors_[0]->set_folder(folder.path());
  monitors_[0]->start();
  monitors_[1]->start();
  lost.send(R"({"beat":1,"step":0,"doing":"starting MPI","changes":1})");
  work(0.3);
  FlightRecorder recorder;
  recorder.keep_in(kept_file(folder.path(), 2));
  recorder.set_step(5);
  recorder.set_activity("backward");
  lost.close();
  work(kTimeout);
  EXPECT_TRUE(ended_);
  EXPECT_NE(said().find("it was at step 5: backward"), std::string::npos) << said();
}

}  // namespace
}  // namespace cohort::test
