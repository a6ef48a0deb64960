// Grading of what finds a cause: the stuck rank, the first NaN, the slow rank.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab10_operations {

void grade_stuck(const Library& library, Grading& grading);
void grade_nonfinite(const Library& library, Grading& grading);
void grade_straggler(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab10_operations
