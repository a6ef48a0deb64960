// What each rank of a layout holds, without running it: for who writes checkpoints as other ranks would.
#pragma once

#include <vector>

#include "checkpoint/load/shards.hpp"
#include "config/run_config.hpp"

namespace cohort {

/// What TrainStep::shards() has on rank `rank` of the run, but for the elements: tensors, parts, and which of them it writes, in
/// the same order. `config` is validated and its vocabulary known. Allocates nothing, and needs no other ranks: any process can
/// ask for any rank.
std::vector<StateShard> shards_of_rank(const RunConfig& config, int rank);

}  // namespace cohort
