// The time that the compute stream stands still, of however many places, and of which stretch.
#include "gpu/stall_meter.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "support/test_device.hpp"

namespace cohort::test {
namespace {

class StallMeterTest : public ::testing::Test {
 protected:
  // 35 microseconds of an H200, beside which what two events cost is little.
  static constexpr Bytes kWork = 128 * kMiB;

  void SetUp() override {
    if (test_device() == DeviceKind::cpu) GTEST_SKIP() << "streams are a GPU's";
    memory_.reset(gpu::allocate(kWork, "test"));
    whole_.emplace();
  }
  void TearDown() override {
    if (memory_) gpu::synchronize();
  }
  void work() { gpu::zero_async(memory_.get(), kWork, gpu::compute_stream()); }
  // In each of so many places a piece of work. Returns the seconds from the first to the last.
  double run(int places) {
    whole_->start();
    for (int i = 0; i < places; ++i) {
      meter_.begin();
      work();
      meter_.end();
    }
    whole_->stop();
    gpu::synchronize();
    return whole_->seconds();
  }

  struct Release {
    void operator()(void* memory) const noexcept { gpu::release(memory); }
  };
  std::unique_ptr<void, Release> memory_;
  std::optional<gpu::Stopwatch> whole_;
  gpu::StallMeter meter_;
};

// Of places that are the whole time, at least four fifths: the rest is events.
void expect_all_of(double seconds, double whole) {
  EXPECT_LE(seconds, whole);
  EXPECT_GE(seconds, 0.8 * whole);
}

TEST_F(StallMeterTest, CountsThePlacesSinceItWasAsked) {
  for (const int places : {1, 3, 1024, 1025, 3000}) {
    const double whole = run(places);
    if (places > 1) expect_all_of(meter_.take(), whole);
    meter_.take();
    EXPECT_EQ(meter_.take(), 0.0) << "they have been counted";
  }
  run(5);
  meter_.forget();
  EXPECT_EQ(meter_.take(), 0.0);
  const double whole = run(2000);
  expect_all_of(meter_.take(), whole);
}

// A step of a large model has more than twenty thousand; an evaluation, of which nobody asks, any number.
TEST_F(StallMeterTest, CountsThemHoweverManyTheyAreWithFewStopwatches) {
  const double whole = run(50000);
  EXPECT_LT(meter_.stopwatches(), 5000U);
  expect_all_of(meter_.take(), whole);
}

}  // namespace
}  // namespace cohort::test
