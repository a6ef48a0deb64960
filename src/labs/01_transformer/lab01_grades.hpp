// How each exercise of lab 1 is graded: a file for the ops of the model, one for attention and loss, one for the training loop.
#pragma once

#include "labs/grading/grading.hpp"
#include "labs/workplace/exercise_library.hpp"

namespace cohort::labs::lab01_transformer {

void grade_rms_norm(const Library& library, Grading& grading);
void grade_rms_norm_backward(const Library& library, Grading& grading);
void grade_rotate_half(const Library& library, Grading& grading);
void grade_apply_rotary(const Library& library, Grading& grading);
void grade_swiglu(const Library& library, Grading& grading);
void grade_causal_attention(const Library& library, Grading& grading);
void grade_next_token_loss(const Library& library, Grading& grading);
void grade_init_weights(const Library& library, Grading& grading);
void grade_parameter_groups(const Library& library, Grading& grading);
void grade_cosine_schedule(const Library& library, Grading& grading);
void grade_train_step(const Library& library, Grading& grading);
void grade_numeric_derivative(const Library& library, Grading& grading);

/// They let a run use the exercises: its kernels on CPUs, its schedule, its weight decay.
void use_rms_norm(const Library& library);
void use_rms_norm_backward(const Library& library);
void use_apply_rotary(const Library& library);
void use_swiglu(const Library& library);
void use_causal_attention(const Library& library);
void use_next_token_loss(const Library& library);
void use_parameter_groups(const Library& library);
void use_cosine_schedule(const Library& library);

}  // namespace cohort::labs::lab01_transformer
