// checkpoint_interval: that is the first term of the series alone
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

// Young's interval less the save, and goodput as three losses that are added.
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes) {
  const double mtbf = node_mtbf / nodes, young = std::sqrt(2.0 * save * mtbf);
  return {young, young - save, 1.0 - save / young - young / 2.0 / mtbf - restart / mtbf};
}
