// Device time between two points of the compute stream, by a timing event at each: what lies between them on the stream counts,
// also where it waits for something; the host's time does not. To half a microsecond.
#pragma once

#include "gpu/device.hpp"

namespace cohort::gpu {

class Stopwatch {
 public:
  /// Before, and after, what is timed is put on the compute stream. The host does not wait. May be used again after stop().
  void start() { begin_.record(compute_stream()); }
  void stop() { end_.record(compute_stream()); }
  /// Whether the device has come by stop().
  bool stopped() const { return end_.happened(); }
  /// From start() to stop(), which the device must have come by: see synchronize().
  double seconds() const { return 1e-3 * milliseconds_between(begin_, end_); }

 private:
  Event begin_{Event::Kind::timing}, end_{Event::Kind::timing};
};

}  // namespace cohort::gpu
