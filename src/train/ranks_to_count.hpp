// Which ranks of a pipeline stage to count (train/counted_step.hpp), where an optimizer gives them different things to do.
#pragma once

#include <vector>

#include "config/run_config.hpp"

namespace cohort {

/// Numbers of ranks in a stage, as those of the world are counted from its first rank on: among them are the one whose optimizer
/// keeps most and the one whose optimizer sends most. {0} if all do the same. `config` is validated and its vocabulary known.
std::vector<int> ranks_to_count(const RunConfig& config, int stage);

}  // namespace cohort
