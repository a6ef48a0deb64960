#include "gpu/stall_meter.hpp"

#include <utility>

namespace cohort::gpu {

void StallMeter::begin() {
  if (running_.size() >= read_at_) read_stopped();
  if (free_.empty()) free_.emplace_back();
  running_.push_back(std::move(free_.back()));
  free_.pop_back();
  running_.back().start();
}

void StallMeter::end() { running_.back().stop(); }

void StallMeter::read_stopped() {
  while (!running_.empty() && running_.front().stopped()) read_first();
  read_at_ = running_.size() + kReadEvery;
}

void StallMeter::read_first() {
  seconds_ += running_.front().seconds();
  free_.push_back(std::move(running_.front()));
  running_.pop_front();
}

double StallMeter::take() {
  while (!running_.empty()) read_first();
  read_at_ = kReadEvery;
  return std::exchange(seconds_, 0.0);
}

void StallMeter::forget() {
  for (Stopwatch& stopwatch : running_) free_.push_back(std::move(stopwatch));
  running_.clear();
  read_at_ = kReadEvery;
  seconds_ = 0.0;
}

}  // namespace cohort::gpu
