// Reports survive the wire; dumps are files that can be read.
#include "watch/report.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/scratch_file.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

double report_now = 0.0;
double report_clock() { return report_now; }

FlightRecorder& recorder() {
  static FlightRecorder recorder(report_clock);
  return recorder;
}

TEST(Report, SurvivesTheWire) {
  report_now = 10.0;
  auto members = std::make_shared<const std::vector<int>>(std::vector<int>{0, 3});
  const auto done = recorder().begin({.operation = "barrier", .group = "world", .number = 4});
  recorder().finish(done);
  const auto id = recorder().begin(
      {.operation = "all_reduce", .group = "dp", .members = members, .number = 2, .elements = 3, .dtype = DType::f32});
  recorder().wait(id);
  recorder().set_activity("forward");
  recorder().set_step(7);
  report_now = 12.5;
  const RankReport report = make_report(3, "node1", recorder());
  EXPECT_EQ(report.step, 7);
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_EQ(report.waiting[0].members, (std::vector<int>{0, 3}));
  EXPECT_EQ(report.waiting[0].seconds, 2.5);
  EXPECT_EQ(report.waiting[0].kind, "all_reduce of 3 fp32");
  ASSERT_TRUE(report.finished);
  EXPECT_EQ(report_from(nlohmann::json::parse(to_json(report).dump())), report);
}

// Of a device's thousands the oldest travel, and how many there are is said.
TEST(Report, OfManyOperationsTheOldestAreNamedAndTheOthersCounted) {
  FlightRecorder many(report_clock);
  constexpr std::uint64_t kMany = RankReport::kMostReported + 1000;
  for (std::uint64_t n = 1; n <= kMany; ++n) many.wait(many.begin({.operation = "all_reduce", .group = "tp", .number = n}));
  const RankReport report = make_report(0, "node1", many);
  ASSERT_EQ(report.waiting.size(), RankReport::kMostReported);
  EXPECT_EQ(report.waiting.front().number, 1U);
  EXPECT_EQ(report.waiting.back().number, RankReport::kMostReported);
  EXPECT_EQ(report.more_waiting, 1000U);
  EXPECT_EQ(report_from(nlohmann::json::parse(to_json(report).dump())), report);
}

TEST(Report, ADumpIsAFileThatCanBeRead) {
  const TemporaryFolder folder;
  const RankReport report = make_report(3, "node1", recorder());
  write_dump(flight_folder(folder.path()), report, recorder());
  std::ifstream file(folder / "flight/rank_00003.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(report_from(json), report);
  ASSERT_FALSE(json.at("operations").empty());
  EXPECT_TRUE(json["operations"].back().contains("started_ago"));
}

TEST(Report, TheVerdictOfAnEarlierJobAndFilesOfRanksBeyondThisOneGoAndNothingElse) {
  const TemporaryFolder folder;
  const std::filesystem::path flight = flight_folder(folder.path());
  remove_verdict(flight, 2);  // there need not be any
  for (const int rank : {1, 3}) write_dump(flight, make_report(rank, "node1", recorder()), recorder());
  std::ofstream(flight / "verdict.json") << "{}";
  std::ofstream(flight / "notes.txt") << "mine";
  std::filesystem::create_directory(flight / "rank_00004.json");
  remove_verdict(flight, 2);
  EXPECT_FALSE(std::filesystem::exists(flight / "rank_00003.json") || std::filesystem::exists(flight / "verdict.json"));
  for (const char* name : {"notes.txt", "rank_00001.json", "rank_00004.json"})
    EXPECT_TRUE(std::filesystem::exists(flight / name));
}

}  // namespace
}  // namespace cohort::test
