#include "comm/benchmark.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "comm/mpi_communicator.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(Benchmark, TimesEachSizeAndAlgorithm) {
  const auto comm = make_world_communicator();
  const int n = comm->size();
  std::vector<AllReduceTiming> all;
  run_benchmark(
      *comm,
      {.min_bytes = 4, .max_bytes = 100'000, .algorithms = {AllReduceAlgorithm::ring, AllReduceAlgorithm::library}, .repeats = 3},
      [&](const std::vector<AllReduceTiming>& timings) { all.insert(all.end(), timings.begin(), timings.end()); });
  ASSERT_EQ(all.size(), 2u * 9u);  // 4, 16, ..., 65536 and 100000
  EXPECT_EQ(all.back().bytes, 100'000);
  for (const AllReduceTiming& timing : all) {
    EXPECT_EQ(timing.repeats, 3);
    EXPECT_GT(timing.seconds, 0.0);
    const double expected = 2.0 * (n - 1) / n * static_cast<double>(timing.bytes) / timing.seconds;
    EXPECT_NEAR(timing.bus_bytes_per_second, expected, 1e-9 * expected);
    // The slowest rank's time: the same on all ranks.
    EXPECT_EQ(all_reduce_value(*comm, timing.seconds, ReduceOp::max), timing.seconds);
  }
}

TEST(Benchmark, SizesGoUpToTheLargest) {
  EXPECT_EQ(message_sizes({.min_bytes = 4, .max_bytes = 64}), (std::vector<Bytes>{4, 16, 64}));
  EXPECT_EQ(message_sizes({.min_bytes = 8, .max_bytes = 100}), (std::vector<Bytes>{8, 32, 100}));
  EXPECT_EQ(message_sizes({.min_bytes = 8, .max_bytes = 8}), (std::vector<Bytes>{8}));
  EXPECT_EQ(message_sizes({}).back(), 64 * kMiB);
}

TEST(Benchmark, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(check({.min_bytes = 6}), ExitCode::usage, "6 bytes", "multiple of 4");
  EXPECT_ERROR(check({.min_bytes = 0}), ExitCode::usage, "0 bytes");
  EXPECT_ERROR(check({.min_bytes = 8, .max_bytes = 4}), ExitCode::usage, "larger than");
  EXPECT_ERROR(check({.algorithms = {}}), ExitCode::usage, "no all-reduce algorithm");
  EXPECT_ERROR(check({.repeats = -1}), ExitCode::usage, "-1 repeats");
}

TEST(ParseBytes, ReadsUnitsAndRefusesTheRest) {
  EXPECT_EQ(parse_bytes("4"), 4);
  EXPECT_EQ(parse_bytes("64KiB"), 64 * kKiB);
  EXPECT_EQ(parse_bytes("1 MiB"), kMiB);
  EXPECT_EQ(parse_bytes("1.5GiB"), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("12B"), 12);
  for (const char* wrong : {"", "KiB", "4KB", "-4", "1.5", "4 4", "1e3", "nan", "inf", "99999999999GiB", "0x10"}) {
    EXPECT_ERROR(parse_bytes(wrong), ExitCode::usage, "is not a size");
  }
}

}  // namespace
}  // namespace cohort::test
