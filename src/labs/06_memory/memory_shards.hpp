// Grading of lab 6's exercises on shards and messages: 6.5 to 6.8; and their use in runs.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab06_memory {

void grade_shard_bounds(const Library& library, Grading& grading);
void grade_reduce_scatter(const Library& library, Grading& grading);
void grade_all_gather(const Library& library, Grading& grading);
void grade_zero_step(const Library& library, Grading& grading);

/// In a run they reduce gradients to shards and gather weights.
void use_reduce_scatter(const Library& library);
void use_all_gather(const Library& library);

}  // namespace cohort::labs::lab06_memory
