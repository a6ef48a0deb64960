// What a picture of a timeline must have room for.
#pragma once

#include <map>
#include <vector>

#include "parallel/pipeline/timeline.hpp"

namespace cohort::pipeline {

struct Extent {
  double start = 0.0;  // of the earliest event
  double total = 0.0;  // from there to the latest end
  double shortest = 0.0;
  double mean = 0.0;        // length of an event
  std::map<int, int> rows;  // rank -> row, in the order of the ranks
  int chunks = 1;
};

Extent extent_of(const std::vector<Event>& events);

/// Distance of the marks of an axis of `total`: 1, 2 or 5 times a power of ten, the smallest that gives at most `most` marks
/// after the one at 0. total > 0.
double axis_step(double total, int most);

}  // namespace cohort::pipeline
