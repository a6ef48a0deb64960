// A learner's functions as strategies of data parallelism, for real runs: inside of each the function does what naive.cpp,
// hooked_all_reduce.cpp and the buckets of bucketed.cpp do in the engine.
#pragma once

#include "labs/workplace/exercise_library.hpp"

namespace cohort::labs::lab02_data_parallel {

void use_naive(const Library& library);
void use_hooks(const Library& library);
void use_buckets(const Library& library);

}  // namespace cohort::labs::lab02_data_parallel
