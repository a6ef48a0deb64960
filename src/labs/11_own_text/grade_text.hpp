// How the exercises of lab 11 are graded; one file an idea.
#pragma once

#include "labs/labs.hpp"

namespace cohort::labs::lab11_own_text {

// grade_bpe.cpp
void grade_best_pair(const Library& library, Grading& grading);
void grade_merge_pair(const Library& library, Grading& grading);
void grade_encode(const Library& library, Grading& grading);

// grade_data.cpp
void grade_split(const Library& library, Grading& grading);
void grade_packing(const Library& library, Grading& grading);
void grade_bits(const Library& library, Grading& grading);

// grade_sampling.cpp
void grade_sampling(const Library& library, Grading& grading);
/// A run draws its texts with it (train/sampling.hpp).
void use_sampling(const Library& library);

}  // namespace cohort::labs::lab11_own_text
