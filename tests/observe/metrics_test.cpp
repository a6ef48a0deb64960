#include "observe/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;
using test::TemporaryFolder;
using test::text_of;

// Every line, parsed by a strict parser.
std::vector<ordered_json> records(const std::filesystem::path& path) {
  std::istringstream lines(text_of(path));
  std::vector<ordered_json> result;
  for (std::string line; std::getline(lines, line);) result.push_back(ordered_json::parse(line));
  return result;
}

std::vector<Count> steps(const std::filesystem::path& path) {
  std::vector<Count> result;
  for (const ordered_json& record : records(path)) result.push_back(record["step"].get<Count>());
  return result;
}

TEST(Metrics, WritesOneLineAStepInTheOrderGiven) {
  const TemporaryFolder folder;
  MetricsWriter metrics(folder / "m.jsonl");
  metrics.write({{"step", 1}, {"loss", 2.5}, {"alpha", 1}});
  EXPECT_EQ(text_of(folder / "m.jsonl"), "{\"step\":1,\"loss\":2.5,\"alpha\":1}\n");  // flushed, though the writer is alive
}

TEST(Metrics, NumbersKeepEveryBit) {
  const TemporaryFolder folder;
  MetricsWriter metrics(folder / "m.jsonl");
  metrics.write({{"step", 1}, {"loss", 1.0 / 3.0}});
  EXPECT_EQ(records(folder / "m.jsonl")[0]["loss"].get<double>(), 1.0 / 3.0);
}

TEST(Metrics, NumbersThatAreNotFiniteStayValidJson) {
  const TemporaryFolder folder;
  MetricsWriter metrics(folder / "m.jsonl");
  metrics.write({{"step", 1}, {"loss", NAN}, {"norm", INFINITY}, {"seconds", {{"data", -INFINITY}, {"forward", 1.0}}}});
  const ordered_json record = records(folder / "m.jsonl").at(0);
  EXPECT_TRUE(record["loss"].is_null());
  EXPECT_EQ(record["loss_text"], "nan");
  EXPECT_EQ(record["norm_text"], "inf");
  EXPECT_EQ(record["seconds"]["data_text"], "-inf");
  EXPECT_EQ(record["seconds"]["forward"], 1.0);
  EXPECT_FALSE(record["seconds"].contains("forward_text"));
}

TEST(Metrics, ResumeTakesOutLaterSteps) {
  const TemporaryFolder folder;
  {
    MetricsWriter metrics(folder / "m.jsonl");
    for (int step = 1; step <= 5; ++step) metrics.write({{"step", step}, {"loss", step}});
  }
  MetricsWriter metrics(folder / "m.jsonl", 3);
  EXPECT_EQ(metrics.unreadable_lines(), 0);
  metrics.write({{"step", 4}, {"loss", 40}});
  EXPECT_EQ(steps(folder / "m.jsonl"), (std::vector<Count>{1, 2, 3, 4}));
  EXPECT_EQ(records(folder / "m.jsonl")[3]["loss"], 40);
}

TEST(Metrics, ResumeSurvivesALineThatACrashCutShort) {
  const TemporaryFolder folder;
  std::ofstream(folder / "m.jsonl") << "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"lo";
  MetricsWriter metrics(folder / "m.jsonl", 3);
  EXPECT_EQ(metrics.unreadable_lines(), 1);
  metrics.write({{"step", 4}});
  EXPECT_EQ(steps(folder / "m.jsonl"), (std::vector<Count>{1, 2, 4}));
}

TEST(Metrics, ResumeWithoutAFileStartsOne) {
  const TemporaryFolder folder;
  MetricsWriter(folder / "m.jsonl", 3).write({{"step", 4}});
  EXPECT_EQ(steps(folder / "m.jsonl"), (std::vector<Count>{4}));
}

TEST(Metrics, AFreshRunStartsEmpty) {
  const TemporaryFolder folder;
  std::ofstream(folder / "m.jsonl") << "{\"step\":9}\n";
  MetricsWriter(folder / "m.jsonl").write({{"step", 1}});
  EXPECT_EQ(steps(folder / "m.jsonl"), (std::vector<Count>{1}));
}

TEST(Metrics, RefusesRecordsWithoutAStepOrOutOfOrder) {
  const TemporaryFolder folder;
  MetricsWriter metrics(folder / "m.jsonl");
  EXPECT_ERROR(metrics.write({{"loss", 1.0}}), ExitCode::internal, "step");
  metrics.write({{"step", 2}});
  EXPECT_ERROR(metrics.write({{"step", 2}}), ExitCode::internal, "a step has one record");
  EXPECT_ERROR(MetricsWriter(folder / "no/m.jsonl"), ExitCode::io, "no/m.jsonl");
}

}  // namespace
}  // namespace cohort
