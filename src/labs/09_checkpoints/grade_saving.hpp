// Grading of save_atomically and load_newest.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab09_checkpoints {

void grade_saving(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab09_checkpoints
