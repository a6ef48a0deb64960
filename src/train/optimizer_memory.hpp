// What the optimizer of a run keeps, as its slots say.
#pragma once

#include "config/run_config.hpp"
#include "models/model.hpp"
#include "parallel/zero/shard_group.hpp"

namespace cohort {

/// Bytes of the largest rank of a stage.
struct OptimizerMemory {
  Bytes slots = 0;     // of its own elements
  Bytes matrices = 0;  // to update whole matrices in: buffers and scratch memory
};

/// `model` is what a rank of the stage holds; `groups` its division under ZeRO, none without. The largest is the one that has
/// most of both together.
OptimizerMemory optimizer_memory(const RunConfig& config, int stage, const Model& model, const std::vector<ShardGroup>& groups);

/// Most bytes that an element's slots have.
Bytes most_slot_bytes(const OptimizerSection& section);

}  // namespace cohort
