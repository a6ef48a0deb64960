// Grading of save_checkpoint and load_checkpoint.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab09_checkpoints {

void grade_state(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab09_checkpoints
