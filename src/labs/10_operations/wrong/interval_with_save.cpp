// checkpoint_interval: t is the training between two saves, without the save
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

// From the begin of one save to the begin of the next.
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes) {
  const double mtbf = node_mtbf / nodes, x = save / (2.0 * mtbf);
  CheckpointInterval interval{};
  interval.young = std::sqrt(2.0 * save * mtbf);
  interval.daly = save < 2.0 * mtbf ? interval.young * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) : mtbf;
  interval.goodput = interval.daly / (mtbf * std::exp(restart / mtbf) * std::expm1((interval.daly + save) / mtbf));
  return interval;
}
