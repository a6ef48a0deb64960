// How the exercises of lab 12 are graded, and what a run uses them for; one file an idea.
#pragma once

#include <string>

#include "labs/labs.hpp"

namespace cohort::labs::lab12_kernels {

// grade_products.cpp
void grade_matmul(const Library& library, Grading& grading);

// grade_pointwise.cpp
void grade_gelu_forward(const Library& library, Grading& grading);
void grade_gelu_backward(const Library& library, Grading& grading);
void grade_adamw(const Library& library, Grading& grading);

// grade_rows.cpp
void grade_moments(const Library& library, Grading& grading);
void grade_softmax(const Library& library, Grading& grading);
void grade_attention(const Library& library, Grading& grading);

// use_kernels.cpp: from now on the kernel table of CPUs has them (ops/tuned.hpp)
void use_matmul(const Library& library);
void use_gelu_forward(const Library& library);
void use_gelu_backward(const Library& library);
void use_moments(const Library& library);
void use_adamw(const Library& library);

}  // namespace cohort::labs::lab12_kernels
