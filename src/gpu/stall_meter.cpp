#include "gpu/stall_meter.hpp"

namespace cohort::gpu {

void StallMeter::begin() {
  if (used_ == kMost) return;
  if (used_ == places_.size()) places_.emplace_back(Event(Event::Kind::timing), Event(Event::Kind::timing));
  places_[used_].first.record(compute_stream());
}

void StallMeter::end() {
  if (used_ < kMost) places_[used_++].second.record(compute_stream());
}

double StallMeter::take() {
  double seconds = 0.0;
  for (std::size_t i = 0; i < used_; ++i) seconds += 1e-3 * milliseconds_between(places_[i].first, places_[i].second);
  used_ = 0;
  return seconds;
}

}  // namespace cohort::gpu
