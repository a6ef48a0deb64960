// How long the compute stream stands still where it is told to wait for another stream: two timing events around each such place.
// What it costs is a few microseconds of the host and one or two of the device, each time.
#pragma once

#include <utility>
#include <vector>

#include "gpu/device.hpp"

namespace cohort::gpu {

class StallMeter {
 public:
  /// Before, and after, the compute stream is told to wait.
  void begin();
  void end();
  /// Seconds since the last call, or since forget(); the device must have passed all of them.
  double take();
  void forget() { used_ = 0; }

 private:
  /// Whoever never asks, such as an evaluation, does not fill the memory: what is beyond is not counted.
  static constexpr std::size_t kMost = 1 << 14;
  std::vector<std::pair<Event, Event>> places_;
  std::size_t used_ = 0;  // since the last take()
};

}  // namespace cohort::gpu
