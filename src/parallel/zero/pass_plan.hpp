// What a micro-batch does to the shards of ZeRO, worked out without running it: the hooks that a model calls, played through in
// their order (nn/hooks.hpp), by the rules of sharded.cpp, zero2.cpp and zero3.cpp. For estimates, which must know before there
// is memory how much of it comes and goes.
#pragma once

#include <string>
#include <vector>

#include "parallel/zero/shard_group.hpp"

namespace cohort {

struct PassPlan {
  Bytes buffers = 0;           // Sharded::buffer_bytes() after it
  std::vector<Count> gathers;  // stage 3: how often each group is gathered; else 0
};

/// `strategy` is "zero1", "zero2" or "zero3"; `groups` are those of `model`, which is declared. `compute` is what weights are
/// gathered in, `reduction` what gradients are summed in over the ranks; fp32 if there is one rank.
PassPlan plan_pass(const Model& model, const std::vector<ShardGroup>& groups, const std::string& strategy, DType compute,
                   DType reduction);

}  // namespace cohort
