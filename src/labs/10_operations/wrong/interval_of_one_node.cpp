// checkpoint_interval: that is for one node
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

// Forgets that any node ends the job.
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes) {
  const double mtbf = node_mtbf / std::min(nodes, 1), x = save / (2.0 * mtbf);
  CheckpointInterval interval{};
  interval.young = std::sqrt(2.0 * save * mtbf);
  interval.daly = save < 2.0 * mtbf ? interval.young * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - save : mtbf;
  interval.goodput = interval.daly / (mtbf * std::exp(restart / mtbf) * std::expm1((interval.daly + save) / mtbf));
  return interval;
}
