// How long the compute stream stands still where it is told to wait for another stream: a stopwatch around each such place. What
// it costs is a few microseconds of the host and one or two of the device, each time.
//
// All places count, however many a step has: a Llama of 32 layers has about 30,000 with the rows of 16 micro-batches going around
// a ring of 8 ranks (7 turns for each of 8 products of a layer, and 2 collectives). Stopwatches that the device has come by are
// read and used again: there are about as many as the host is ahead of the device, and kReadEvery more.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "gpu/stopwatch.hpp"

namespace cohort::gpu {

class StallMeter {
 public:
  /// Before, and after, the compute stream is told to wait.
  void begin();
  void end();
  /// Seconds since the last call, or since forget(); the device must have passed all of them.
  double take();
  void forget();

  /// Stopwatches in use, for tests.
  std::size_t stopwatches() const { return running_.size() + free_.size(); }

 private:
  /// So rarely that asking the device is no cost, so often that events are few.
  static constexpr std::size_t kReadEvery = 1024;
  void read_stopped();
  void read_first();

  std::deque<Stopwatch> running_;  // in the order of the stream
  std::vector<Stopwatch> free_;
  std::size_t read_at_ = kReadEvery;  // when so many run
  double seconds_ = 0.0;              // of those that were read since the last take()
};

}  // namespace cohort::gpu
