// Lab 12: kernels. What each is graded by: grade_*.cpp; what a run does with them: use_kernels.cpp.
#include <cmath>

#include "labs/12_kernels/grade_kernels.hpp"

namespace cohort::labs::lab12_kernels {
namespace {

// For the questions: the machine that they speak of.
constexpr double kFlops = 100e9, kBytes = 20e9;  // a second

double product_intensity(double n) { return 2.0 * n * n * n / (4.0 * 3.0 * n * n); }

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 12,
      .folder = "12_kernels",
      .title = "Kernels: from naive to fused",
      .minutes = 150,
      .run_file = "lab12_kernels.toml",
      .ranks = 1,
      .exercises =
          {{.name = "matmul_blocked", .task = "a product in blocks that fit a cache", .grade = grade_matmul, .use = use_matmul},
           {.name = "bias_gelu_forward",
            .task = "bias and GELU in one pass",
            .grade = grade_gelu_forward,
            .use = use_gelu_forward},
           {.name = "bias_gelu_backward",
            .task = "both gradients in one pass",
            .grade = grade_gelu_backward,
            .use = use_gelu_backward},
           {.name = "moments_add", .task = "mean and variance in one pass", .grade = grade_moments, .use = use_moments},
           {.name = "softmax_add", .task = "a softmax whose row comes in parts", .grade = grade_softmax},
           {.name = "attention_add", .task = "attention whose keys come in parts", .grade = grade_attention},
           {.name = "adamw_fused", .task = "AdamW in one pass", .grade = grade_adamw, .use = use_adamw}},
      .questions = {{"q1", [] { return product_intensity(1024.0); }},
                    {"q2", [] { return kFlops / kBytes; }},
                    {"q3", [] { return 28.0 * 124.4e6 / kBytes * 1e3; }},
                    {"q4", [] { return 12.0 * 1024.0 * 1024.0 * 4.0 / 1e6; }},
                    {"q5", [] { return std::sqrt(48.0 * 1024.0 / 12.0); }}}};
  return kLab;
}

}  // namespace cohort::labs::lab12_kernels
