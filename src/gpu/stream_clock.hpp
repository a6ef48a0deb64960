// When the streams of the device came by, in seconds of the host's steady clock.
//
// Each mark is a timing event (CUDA gives the time between two of them to half a microsecond). Once, at the beginning, the host
// reads its clock when an event has just happened: that ties the two clocks together, to some ten microseconds.
#pragma once

#include <deque>

#include "gpu/device.hpp"
#include "observe/tracer.hpp"

namespace cohort::gpu {

class StreamClock : public DeviceClock {
 public:
  /// Waits for the device a few times.
  StreamClock();
  std::int64_t mark(int stream = kComputeStream) override;
  double seconds(std::int64_t mark) const override;

 private:
  Event zero_;
  double zero_seconds_ = 0.0;  // when it happened
  std::deque<Event> marks_;
};

}  // namespace cohort::gpu
