// What `cohort doctor` makes of a run folder.
#include "watch/doctor.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "watch/report.hpp"

namespace cohort::test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void expect_page(const fs::path& run, const std::vector<std::string>& parts) {
  const std::string page = examine(run);
  for (const std::string& part : parts) EXPECT_NE(page.find(part), std::string::npos) << part << " in\n" << page;
}

class Doctor : public ::testing::Test {
 protected:
  // Ranks 0 and 1 of three: rank 2 was stopped, and left nothing.
  void leave_dumps() {
    FlightRecorder recorder;
    const auto id = recorder.begin({.operation = "all_reduce", .group = "dp", .number = 88, .elements = 9, .dtype = DType::f32});
    recorder.wait(id);
    for (const int rank : {0, 1}) write_dump(folder_ / "flight", make_report(rank, "node1", recorder), recorder);
  }
  void leave_verdict() {
    nlohmann::json verdict{{"time", "2026-01-01T00:00:00.000Z"}, {"text", "rank 2 is silent"}, {"culprits", {2}}, {"ranks", {}}};
    for (int rank = 0; rank < 3; ++rank) {
      nlohmann::json json = to_json(RankReport{.rank = rank, .host = "node1", .step = 14, .activity = "forward"});
      json["link"] = rank == 2 ? "silent" : "heard";
      verdict["ranks"].push_back(json);
    }
    write(folder_ / "flight/verdict.json", verdict.dump());
  }
  TemporaryFolder folder_;
};

TEST_F(Doctor, TheVerdictTheRanksAndTheirLastOperations) {
  leave_dumps();
  leave_verdict();
  expect_page(folder_.path(), {"rank 2 is silent", "2026-01-01", "silent", "forward", "last operations of rank 0",
                               "all_reduce of 9 fp32 on 'dp' (number 88", "finished not"});
}

TEST_F(Doctor, DumpsWithoutAVerdict) {
  leave_dumps();
  expect_page(folder_.path(), {"No verdict from rank 0", "node1", "last operations of rank 0"});
}

TEST_F(Doctor, OnlyLogs) {
  write(folder_ / "logs/rank_1/train.log", "first\nstep 7 loss 3.0\n");
  write(folder_ / "logs/rank_0/train.log", "step 8 loss 3.0\n");
  expect_page(folder_.path(), {"No verdict", "killed from outside", "step 8 loss 3.0\nstep 7 loss 3.0\n"});
}

constexpr const char* kTime = "2026-01-01T00:00:00.000Z";

// What a rank throws is in its log; a later start is another matter.
TEST_F(Doctor, TheErrorThatEndedTheRun) {
  const auto line = [](const std::string& level, int rank, const std::string& text) {
    return std::string(kTime) + " " + level + " rank " + std::to_string(rank) + ": " + text + "\n";
  };
  const std::string error = line("error", 0, "shards.h5: cannot be read\nat offset 7");
  write(folder_ / "logs/rank_0/train.log", line("info", 0, "step 7 loss 3.0") + error);
  write(folder_ / "logs/rank_1/train.log", line("error", 1, "an old one") + line("info", 1, "step 7 loss 3.0"));
  write(folder_ / "logs/rank_2/train.log",
        line("info", 2, "step 7 loss 3.0") + line("error", 2, "shards.h5: cannot be read\nat offset 7"));
  expect_page(folder_.path(), {"Errors in the logs:\nranks 0 and 2: shards.h5: cannot be read\nat offset 7\n", "No verdict"});
  EXPECT_EQ(examine(folder_.path()).find("an old one"), std::string::npos);
  leave_verdict();
  expect_page(folder_.path(), {"Verdict of", "ranks 0 and 2: shards.h5: cannot be read"});
}

// Killed from outside, all of them: no dumps, but what their recorders kept.
TEST_F(Doctor, WhereEachRankWas) {
  write(folder_ / "logs/rank_0/train.log", "step 4 loss 3.0\n");
  fs::create_directories(folder_ / "flight");
  FlightRecorder recorder;
  recorder.keep_in(kept_file(folder_ / "flight", 0));
  recorder.set_step(5);
  recorder.set_activity("backward");
  expect_page(folder_.path(), {"No verdict", "Last position of each rank", "5", "backward\n", "step 4 loss 3.0"});
  leave_dumps();
  recorder.keep_in(kept_file(folder_ / "flight", 2));
  expect_page(folder_.path(), {"No verdict from rank 0", "no dump", "backward\n"});
}

TEST_F(Doctor, WhatIsNoRun) {
  EXPECT_ERROR(examine(folder_ / "absent"), ExitCode::io, "absent", "no such folder");
  EXPECT_ERROR(examine(folder_.path()), ExitCode::io, "verdict.json", "is it a run folder");
  write(folder_ / "flight/verdict.json", "{");
  EXPECT_ERROR(examine(folder_.path()), ExitCode::io, "verdict.json", "not a dump");
  write(folder_ / "flight/verdict.json", "{}");
  EXPECT_ERROR(examine(folder_.path()), ExitCode::io, "flight", "not in Cohort's format");
}

}  // namespace
}  // namespace cohort::test
