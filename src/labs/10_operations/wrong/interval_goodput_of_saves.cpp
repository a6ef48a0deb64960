// checkpoint_interval: goodput is
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

using cohort::lab::Link;

// Counts saves alone: as if nothing ever failed.
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes) {
  const double mtbf = node_mtbf / nodes, x = save / (2.0 * mtbf);
  CheckpointInterval interval{};
  interval.young = std::sqrt(2.0 * save * mtbf);
  interval.daly = save < 2.0 * mtbf ? interval.young * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - save : mtbf;
  interval.goodput = interval.daly / (interval.daly + save + 0.0 * restart);
  return interval;
}
