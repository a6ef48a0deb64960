// What metrics say of GPUs, from made-up readings.
#include "telemetry/gpu_metrics.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "comm/self_communicator.hpp"

namespace cohort {
namespace {

using gpu::GpuSummary;
using gpu::Reading;
using gpu::summarise;
using gpu::TimedReading;

TimedReading reading(double seconds, double watts, int celsius, int clock, Bytes nvlink) {
  TimedReading timed{seconds, {}};
  timed.reading.watts = watts;
  timed.reading.celsius = celsius;
  timed.reading.clock_mhz = clock;
  timed.reading.nvlink_sent = nvlink;
  timed.reading.nvlink_received = nvlink;
  timed.reading.nvlink_errors = 5;
  return timed;
}

TEST(GpuSummary, SpreadsOverReadings) {
  const GpuSummary summary =
      summarise(std::nullopt, {reading(1.0, 500.0, 50, 1900, 0), reading(3.0, 700.0, 60, 1700, 8'000'000'000)});
  EXPECT_EQ(summary.samples, 2);
  EXPECT_DOUBLE_EQ(summary.watts->min, 500.0);
  EXPECT_DOUBLE_EQ(summary.watts->mean, 600.0);
  EXPECT_DOUBLE_EQ(summary.celsius->max, 60.0);
  EXPECT_DOUBLE_EQ(summary.clock_mhz->min, 1700.0);
  EXPECT_FALSE(summary.busy);
  EXPECT_DOUBLE_EQ(summary.nvlink_bytes_per_second.value(), 8e9);  // 16 GB in 2 s
  EXPECT_EQ(summary.nvlink_errors, 0);
}

TEST(GpuSummary, CountersGoOnFromTheReadingBefore) {
  const GpuSummary summary = summarise(reading(1.0, 0, 0, 0, 1'000'000'000), {reading(2.0, 0, 0, 0, 2'000'000'000)});
  EXPECT_DOUBLE_EQ(summary.nvlink_bytes_per_second.value(), 2e9);
  EXPECT_FALSE(summarise(std::nullopt, {reading(2.0, 0, 0, 0, 0)}).nvlink_bytes_per_second);  // of one reading nothing is known
  EXPECT_FALSE(summarise(reading(1.0, 0, 0, 0, 100), {reading(2.0, 0, 0, 0, 10)}).nvlink_bytes_per_second);  // began at 0 again
  EXPECT_EQ(summarise(std::nullopt, {}).samples, 0);
}

TEST(GpuSummary, ReasonsOfAnyReadingCount) {
  TimedReading slowed = reading(1.0, 0, 0, 0, 0);
  slowed.reading.slowdowns = 0x4;
  TimedReading hot = reading(2.0, 0, 0, 0, 0);
  hot.reading.slowdowns = 0x40 | 0x8 | 0x1;
  const GpuSummary summary = summarise(std::nullopt, {slowed, hot, reading(3.0, 0, 0, 0, 0)});
  EXPECT_EQ(gpu::slowdown_names(summary.slowdowns), (std::vector<std::string>{"power limit", "heat (hardware)"}));
  EXPECT_TRUE(gpu::is_fault(summary.slowdowns));
  EXPECT_FALSE(gpu::is_fault(0x4 | 0x1 | 0x2 | 0x20));
  EXPECT_TRUE(gpu::slowdown_names(0x1 | 0x2 | 0x100).empty());  // idle, or as a person wished
}

GpuSummary of_rank(double celsius, double clock) {
  GpuSummary summary =
      summarise(std::nullopt, {reading(1.0, 400.0, static_cast<int>(celsius), static_cast<int>(clock), 0),
                               reading(2.0, 400.0, static_cast<int>(celsius), static_cast<int>(clock), 500'000'000)});
  summary.memory_total = 140 * kGiB;
  return summary;
}

TEST(GpuMetrics, TheRankThatStandsOutIsNamed) {
  std::vector<GpuSummary> ranks{of_rank(50, 1900), of_rank(81, 1850), of_rank(55, 1400), GpuSummary{}};
  ranks[1].slowdowns = 0x20;
  ranks[2].xids = {63, 79};
  ranks[2].nvlink_errors = 3;
  const nlohmann::ordered_json json = to_json(ranks);
  EXPECT_EQ(json["ranks"], 3);  // one knows nothing
  EXPECT_EQ(json["hottest_rank"], 1);
  EXPECT_EQ(json["slowest_clock_rank"], 2);
  EXPECT_DOUBLE_EQ(json["celsius"]["mean"].get<double>(), 62.0);
  EXPECT_DOUBLE_EQ(json["clock_mhz"]["min"].get<double>(), 1400.0);
  EXPECT_DOUBLE_EQ(json["clock_mhz"]["max"].get<double>(), 1900.0);
  EXPECT_DOUBLE_EQ(json["nvlink_gb_per_s"]["mean"].get<double>(), 1.0);
  EXPECT_EQ(json["nvlink_errors"], 3);
  EXPECT_EQ(json["memory_total_bytes"], 140 * kGiB);
  EXPECT_EQ(json["slowed"], (nlohmann::ordered_json{{"heat", {1}}}));
  EXPECT_EQ(json["xid"].size(), 2u);
  EXPECT_FALSE(json.contains("busy"));
  const auto lines = alarms(ranks);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("rank 2 reported XID 79"), std::string::npos) << lines[1];
}

TEST(GpuMetrics, NobodyKnowsAnything) {
  EXPECT_TRUE(to_json(std::vector<GpuSummary>(3)).is_null());
  EXPECT_TRUE(alarms(std::vector<GpuSummary>(3)).empty());
}

TEST(GpuMetrics, SummariesTravelWhole) {
  const auto self = make_self_communicator("world");
  Communicator& world = *self;
  GpuSummary own = of_rank(70, 1500);
  own.busy = gpu::Spread{0.5, 0.75, 1.0};
  own.slowdowns = 0x4 | 0x20;
  own.xids = {1, 2, 3, 4, 5, 6};
  const std::vector<GpuSummary> all = gather(world, own);
  ASSERT_EQ(all.size(), 1u);
  own.xids = {3, 4, 5, 6};
  EXPECT_EQ(to_json(all), to_json(std::vector<GpuSummary>{own}));
  EXPECT_EQ(all[0].samples, 2);
  EXPECT_FALSE(all[0].memory_busy);
  EXPECT_EQ(gather(world, GpuSummary{})[0].samples, 0);
}

}  // namespace
}  // namespace cohort
