// How a layout scales when ranks are added as further replicas: pp, cp and tp stay, dp grows.
#pragma once

#include <vector>

#include "plan/suggest.hpp"

namespace cohort {

struct ScalingPoint {
  int ranks = 1;
  Count global_batch = 0;
  Bytes memory = 0;
  StepTime time;
  double tokens_per_second = 0.0;
  double efficiency = 1.0;  // tokens per second and rank, as a share of the first point's
};

struct ScalingCurve {
  std::vector<ScalingPoint> weak;    // each replica keeps its samples: the global batch grows
  std::vector<ScalingPoint> strong;  // the global batch stays; only ranks that divide it
};

inline constexpr int kMostRanksOfScaling = 16384;

/// From the fewest ranks that fit into memory in doublings to kMostRanksOfScaling, and that of `best` itself.
ScalingCurve scaling_curve(const RunConfig& run, const Suggestion& best, const PlannedMachine& machine);

}  // namespace cohort
