// Grading of lab 6's exercises on activations: 6.9, on a chain that counts, and 6.10, against one large batch.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab06_memory {

void grade_recompute(const Library& library, Grading& grading);
void grade_accumulate(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab06_memory
