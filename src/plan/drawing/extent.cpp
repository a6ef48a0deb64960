#include "plan/drawing/extent.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::pipeline {

Extent extent_of(const std::vector<Event>& events) {
  Extent extent;
  if (events.empty()) return extent;
  extent.start = events.front().start;
  extent.shortest = events.front().end - events.front().start;
  double last = events.front().end;
  double sum = 0.0;
  for (const Event& event : events) {
    extent.start = std::min(extent.start, event.start);
    last = std::max(last, event.end);
    extent.shortest = std::min(extent.shortest, event.end - event.start);
    sum += event.end - event.start;
    extent.rows[event.rank] = 0;
    extent.chunks = std::max(extent.chunks, event.action.chunk + 1);
  }
  extent.total = last - extent.start;
  extent.mean = sum / static_cast<double>(events.size());
  int row = 0;
  for (auto& [rank, place] : extent.rows) place = row++;
  return extent;
}

double axis_step(double total, int most) {
  const double least = total / std::max(most, 1);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10.0 * power;
}

}  // namespace cohort::pipeline
