// How the exercises of lab 2 are graded.
#pragma once

#include "labs/grading/grading.hpp"
#include "labs/workplace/exercise_library.hpp"

namespace cohort::labs::lab02_data_parallel {

void grade_samples(const Library& library, Grading& grading);
void grade_average(const Library& library, Grading& grading);
void grade_mean(const Library& library, Grading& grading);
void grade_naive(const Library& library, Grading& grading);
void grade_hooks(const Library& library, Grading& grading);
void grade_buckets(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab02_data_parallel
