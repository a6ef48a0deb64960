// How the exercises of lab 7 are graded, a file for each group of them.
#pragma once

#include <cmath>
#include <string>

#include "labs/labs.hpp"

namespace cohort::labs::lab07_tensor_parallel {

/// For rejections: "0.25", "nan" whatever its sign.
inline std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value); }

void grade_column_parallel(const Library& library, Grading& grading);
void grade_row_parallel(const Library& library, Grading& grading);
void grade_qkv_columns(const Library& library, Grading& grading);

void grade_all_gather(const Library& library, Grading& grading);
void grade_reduce_scatter(const Library& library, Grading& grading);

void grade_cross_entropy(const Library& library, Grading& grading);

void grade_merge(const Library& library, Grading& grading);
void grade_ring_attention(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab07_tensor_parallel
