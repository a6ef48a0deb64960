// Grading of lab 5's exercises on single numbers: 5.1 to 5.4.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab05_precision {

void grade_rounding(const Library& library, Grading& grading);
void grade_facts(const Library& library, Grading& grading);
void grade_stochastic(const Library& library, Grading& grading);
void grade_sums(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab05_precision
