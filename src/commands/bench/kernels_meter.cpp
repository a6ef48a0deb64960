#include "commands/bench/kernels_meter.hpp"

#include <algorithm>

#include "base/dtype.hpp"
#include "base/random.hpp"
#include "gpu/stopwatch.hpp"
#include "observe/clock.hpp"
#include "ops/cuda/optimizer/adamw.hpp"

namespace cohort {
namespace {

// Repeated to fill a block. No power of two, so that rows of a matrix are not alike.
constexpr Bytes kPattern = 16 * kMiB + 80;
constexpr Bytes kOtherMemory = 256 * kMiB;  // several times the L2 cache of any card so far

}  // namespace

Meter::Meter() {
  const CounterRandom random(1, RandomPurpose::test);
  std::vector<bf16> values(static_cast<std::size_t>(kPattern) / sizeof(bf16));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto four = random.normals(i / 4);
    for (std::size_t j = 0; j < 4; ++j) values[i + j] = to_bf16(four[j]);
  }
  normals_ = holding(values);
  for (bf16& value : values) value.bits &= 0x7FFF;
  positives_ = holding(values);
  other_memory_ = normals<float>(kOtherMemory);
  sum_ = normals<double>(sizeof(double));
}

void* Meter::block(Bytes bytes) {
  blocks_.emplace_back(gpu::allocate(bytes, "the benchmark of kernels"), &gpu::release);
  return blocks_.back().get();
}

void* Meter::filled(Bytes bytes, const void* pattern) {
  void* memory = block(bytes);
  for (Bytes at = 0; at < bytes; at += kPattern) {
    gpu::copy_async(static_cast<char*>(memory) + at, pattern, std::min(kPattern, bytes - at), gpu::compute_stream());
  }
  return memory;
}

// By reading: writes would still be on their way to memory while the kernel runs.
void Meter::flush_cache() {
  ops::cuda::sum_of_squares(gpu::compute_stream(), sum_, other_memory_, kOtherMemory / Bytes{sizeof(float)}, gpu::workspace());
}

// A card that was idle runs at a clock that its power limit does not let it keep, and what is timed then beats what is timed
// later: so each measurement, of a kernel as of a ceiling, first works for as long as the clock takes to settle, and is as long
// as others.
double Meter::median_milliseconds(const std::function<void()>& run, bool flush) {
  constexpr double kWarmUp = 400.0, kTimed = 200.0;  // milliseconds of device time
  constexpr std::size_t kFewestRuns = 15, kMostRuns = 300;
  std::vector<gpu::Stopwatch> stopwatches(kMostRuns);
  const auto timed_run = [&](gpu::Stopwatch& stopwatch) {
    if (flush) flush_cache();
    stopwatch.start();
    run();
    stopwatch.stop();
  };
  const auto times_of = [&](std::size_t runs) {
    for (std::size_t i = 0; i < runs; ++i) timed_run(stopwatches[i]);
    gpu::check_launch("launching a kernel of the benchmark");
    gpu::synchronize();
    std::vector<double> times;
    for (std::size_t i = 0; i < runs; ++i) times.push_back(1e3 * stopwatches[i].seconds());
    std::sort(times.begin(), times.end());
    return times;
  };
  double once = 0.0;
  for (double spent = 0.0; spent < kWarmUp;) {
    const double begin = steady_seconds();
    once = times_of(kFewestRuns)[kFewestRuns / 2];
    spent += 1e3 * (steady_seconds() - begin);
  }
  const auto runs = std::clamp(static_cast<std::size_t>(kTimed / std::max(once, 1e-3)), kFewestRuns, kMostRuns);
  return times_of(runs)[runs / 2];
}

void Meter::product(std::string kernel, Count runs, double flops, const std::function<void()>& run) {
  timings_.push_back({std::move(kernel), runs, median_milliseconds(run, false), flops, true});
}

void Meter::pass(std::string kernel, Count runs, double bytes, const std::function<void()>& run) {
  timings_.push_back({std::move(kernel), runs, median_milliseconds(run, true), bytes, false});
}

}  // namespace cohort
