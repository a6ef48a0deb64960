// Which layers go to which stage.
//
// The slowest stage sets the pace of a pipeline, so layers are dealt such that the largest cost of a stage is as small as
// possible. All layers cost the same; what stands before the first and behind the last costs extra, and its stage gets fewer
// layers for it.
#pragma once

#include <vector>

#include "base/units.hpp"

namespace cohort::pipeline {

struct LayerRange {
  Count first = 0;
  Count end = 0;  // one beyond the last
  bool operator==(const LayerRange&) const = default;
};

/// Of what is not a layer, in units of a layer.
struct EndCosts {
  double embedding = 0.0;
  double head = 0.0;
};

/// The layers of each virtual stage, in the order of the model: consecutive, one at least each. Where stages would be equally
/// good, the later one gets the layer, since it keeps fewer micro-batches. A pure function. Throws Error(config) if there are
/// more stages than layers.
std::vector<LayerRange> stage_ranges(Count layers, int virtual_stages, const EndCosts& costs);

}  // namespace cohort::pipeline
