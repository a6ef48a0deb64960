// Lab 1: the exercises, where a run can use them, and the numbers of its questions.
#include <cmath>

#include "labs/01_transformer/lab01_grades.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab01_transformer {
namespace {

// Parameters of a block of Llama without grouped heads: attention has 4 matrices of C x C, the feed-forward layer 3 of C x F.
double block_parameters(double width, double ffn) { return 4.0 * width * width + 3.0 * width * ffn + 2.0 * width; }

// Of inputs/lab01_llama.toml.
constexpr double kLayers = 2.0, kWidth = 64.0, kFfn = 192.0, kContext = 64.0, kVocabulary = 1024.0;

double parameters() { return kVocabulary * kWidth + kLayers * block_parameters(kWidth, kFfn) + kWidth; }

// Of matrices that multiply: the embedding does as the head, to which it is tied.
double multiplied() { return kVocabulary * kWidth + kLayers * (4.0 * kWidth * kWidth + 3.0 * kWidth * kFfn); }

std::vector<Exercise> exercises() {
  return {
      {"rms_norm", "a norm of each row", grade_rms_norm, use_rms_norm},
      {"rotate_half", "the partner of each element", grade_rotate_half},
      {"apply_rotary", "positions as rotations", grade_apply_rotary, use_apply_rotary},
      {"swiglu", "a gated activation", grade_swiglu, use_swiglu},
      {"causal_attention", "tokens look at those before them", grade_causal_attention, use_causal_attention},
      {"init_weights", "how each tensor starts", grade_init_weights},
      {"next_token_loss", "the end of forward, and its gradient", grade_next_token_loss, use_next_token_loss},
      {"parameter_groups", "what decays and what does not", grade_parameter_groups, use_parameter_groups},
      {"cosine_schedule", "warm-up, half a cosine, floor", grade_cosine_schedule, use_cosine_schedule},
      {"train_step", "micro-batches, clipping, one update", grade_train_step},
      {"rms_norm_backward", "a backward by hand", grade_rms_norm_backward, use_rms_norm_backward},
      {"numeric_derivative", "what a backward is checked with", grade_numeric_derivative},
  };
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 1,
      .folder = "01_transformer",
      .title = "Transformer and training loop",
      .minutes = 240,
      .run_file = "lab01_llama.toml",
      .ranks = 1,
      .exercises = exercises(),
      .questions = {{"q1", parameters, 0.005},
                    {"q2", [] { return std::log(kVocabulary); }},
                    {"q3", [] { return 6.0 * multiplied() / 1e6; }, 0.03},
                    {"q4", [] { return 12.0 * kLayers * kWidth * kContext / (6.0 * multiplied()) * 100.0; }, 0.05},
                    {"q5", [] { return 0.02 / std::sqrt(2.0 * 12.0); }},
                    {"q6", [] { return 3e-3 / 20.0; }},
                    {"q7", [] { return 124.4e6 * 16.0 / 1e9; }},
                    {"q8", [] { return 70.0; }, 1e-9}}};
  return kLab;
}

}  // namespace cohort::labs::lab01_transformer
