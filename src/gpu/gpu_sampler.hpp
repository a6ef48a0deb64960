// Watches one GPU while the program works: a thread reads it once a second, and what it read is summed up until somebody asks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "gpu/nvml.hpp"

namespace cohort::gpu {

/// The least, the mean and the most of one figure over some readings.
struct Spread {
  double min = 0.0;
  double mean = 0.0;
  double max = 0.0;
};

/// A GPU over some time. Figures that it does not tell are missing.
struct GpuSummary {
  int samples = 0;  // 0: nothing is known
  std::optional<Spread> watts, celsius, clock_mhz, memory_clock_mhz, busy, memory_busy, memory_used;
  std::optional<Bytes> memory_total;
  std::uint64_t slowdowns = 0;  // of any reading
  // Between the first and the last reading; missing where there are fewer than two.
  std::optional<double> nvlink_bytes_per_second;  // sent and received
  std::optional<Count> nvlink_errors;
  std::vector<int> xids;
};

/// A reading and when it was made, in seconds.
struct TimedReading {
  double seconds = 0.0;
  Reading reading;
};
/// `before` is the last reading of the time before, for what only counts up; none at the start.
GpuSummary summarise(const std::optional<TimedReading>& before, const std::vector<TimedReading>& readings);

class GpuSampler {
 public:
  /// Begins to read the GPU at this PCI address. Without NVML the thread ends at once.
  explicit GpuSampler(std::string pci_id);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// Since the last call. If no second has passed since, of the last reading.
  GpuSummary take();

 private:
  void run();

  std::string pci_id_;
  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  std::optional<TimedReading> before_;
  std::vector<TimedReading> readings_;
  std::vector<int> xids_;
  std::thread thread_;
};

}  // namespace cohort::gpu
