// The measurement of collectives between GPUs.
#include "comm/device_benchmark.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "comm/device_backends.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(DeviceBenchmark, TimesEachSizeAndCollective) {
  const auto nccl = NcclBackend::make();
  const int n = nccl->size();
  std::vector<DeviceTiming> all;
  run_device_benchmark(*nccl, host_world(), {.min_bytes = 4, .max_bytes = 100'000, .repeats = 3},
                       [&](const std::vector<DeviceTiming>& timings) { all.insert(all.end(), timings.begin(), timings.end()); });
  ASSERT_EQ(all.size(), 3u * 9u);  // 4, 16, ..., 65536 and 100000 bytes, rounded up to n blocks
  EXPECT_GE(all.back().bytes, 100'000);
  EXPECT_LT(all.back().bytes, 100'000 + 4 * n);
  for (const DeviceTiming& timing : all) {
    EXPECT_EQ(timing.bytes % (4 * n), 0);
    EXPECT_EQ(timing.repeats, 3);
    EXPECT_GT(timing.seconds, 0.0);
    const double factor = timing.collective == DeviceCollective::all_reduce ? 2.0 : 1.0;
    const double expected = factor * (n - 1) / n * static_cast<double>(timing.bytes) / timing.seconds;
    EXPECT_NEAR(timing.bus_bytes_per_second, expected, 1e-9 * expected);
    // The slowest rank's time: the same on all ranks.
    EXPECT_EQ(all_reduce_value(host_world(), timing.seconds, ReduceOp::max), timing.seconds);
  }
}

TEST(DeviceBenchmark, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(check(DeviceBenchmark{.min_bytes = 6}), ExitCode::usage, "6 bytes", "multiple of 4");
  EXPECT_ERROR(check(DeviceBenchmark{.min_bytes = 8, .max_bytes = 4}), ExitCode::usage, "larger than");
  EXPECT_ERROR(check(DeviceBenchmark{.repeats = -1}), ExitCode::usage, "-1 repeats");
}

}  // namespace
}  // namespace cohort::test
