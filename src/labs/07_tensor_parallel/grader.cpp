// Lab 7: its exercises, what of them a real run can use, and the formulas of its questions.
#include <cohort/lab07_tensor_parallel.hpp>

#include "base/error.hpp"
#include "labs/07_tensor_parallel/tensor_parallel_grades.hpp"
#include "ops/tuned.hpp"

namespace cohort::labs::lab07_tensor_parallel {
namespace {

// What merge_by_learner calls: the table of kernels has plain functions.
decltype(&merge_attention) learners_merge = nullptr;

// ops::attention_merge, a query and a head at a time. out: [B, R, NH HS], lse: [B, NH, R].
void merge_rows(const ops::PartialAttention& block, const Tensor& out, const Tensor& lse, const Tensor& part_out,
                const Tensor& part_lse) {
  const Count rows = lse.shape().columns(), heads = block.sequence.heads, size = block.sequence.head_size;
  const auto elements = static_cast<std::size_t>(size);
  for (Count head = 0; head < block.sequence.batch * heads; ++head) {  // of all samples
    for (Count row = block.queries.row; row < block.queries.row + block.queries.count; ++row) {
      const Count at = ((head / heads * rows + row) * heads + head % heads) * size, of_lse = head * rows + row;
      learners_merge({out.f32() + at, elements}, lse.f32()[of_lse], {part_out.f32() + at, elements}, part_lse.f32()[of_lse]);
    }
  }
}

void merge_by_learner(const ops::Exec&, const ops::PartialAttention& block, const Tensor& out, const Tensor& lse,
                      const Tensor& part_out, const Tensor& part_lse) {
  try {
    merge_rows(block, out, lse, part_out, part_lse);
  } catch (const lab::NotWritten&) {  // on all ranks alike
    throw SharedError(ExitCode::usage, "merge_attention is not written yet");
  }
}

// In a run with parallel.cp it merges what the turns of ring attention give.
void use_merge(const Library& library) {
  static const Library kept = library;  // its code is called as long as the program runs
  learners_merge = kept.function<std::remove_pointer_t<decltype(learners_merge)>>("merge_attention");
  ops::use_own_kernels([](ops::TunedKernels& kernels) { kernels.attention_merge = merge_by_learner; });
}

// For the questions: what a rank sends in an all-reduce of the stream of 4096 tokens of width 4096 in bf16 by a ring.
double reduced_megabytes(double ranks) { return 2.0 * (ranks - 1.0) / ranks * 4096.0 * 4096.0 * 2.0 / 1e6; }

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 7,
      .folder = "07_tensor_parallel",
      .title = "Tensor, sequence and context parallel",
      .minutes = 180,
      .run_file = "lab07_tensor_parallel.toml",
      .ranks = 4,
      .exercises = {{.name = "column_parallel_linear", .task = "a layer cut by outputs", .grade = grade_column_parallel},
                    {.name = "row_parallel_linear", .task = "a layer cut by inputs", .grade = grade_row_parallel},
                    {.name = "qkv_columns", .task = "whose heads are where", .grade = grade_qkv_columns},
                    {.name = "sequence_all_gather", .task = "all tokens from each rank's", .grade = grade_all_gather},
                    {.name = "sequence_reduce_scatter", .task = "each rank's tokens of a sum", .grade = grade_reduce_scatter},
                    {.name = "vocabulary_parallel_cross_entropy",
                     .task = "the loss, without gathering logits",
                     .grade = grade_cross_entropy},
                    {.name = "merge_attention", .task = "two partial softmaxes to one", .grade = grade_merge, .use = use_merge},
                    {.name = "ring_attention", .task = "keys and values go around", .grade = grade_ring_attention}},
      .questions = {{"q1", [] { return 4.0 * reduced_megabytes(8.0); }},
                    {"q2", [] { return 32.0 * 4.0 * reduced_megabytes(8.0) / 450.0; }},
                    {"q3", [] { return 32.0 * 4.0 * reduced_megabytes(8.0) / 50.0; }},
                    {"q4", [] { return 10.0 + 24.0 / 8.0; }},
                    {"q5", [] { return 4096.0 * 128256.0 * 4.0 / 1e6; }},
                    {"q6", [] { return (7.0 + 0.5) / 0.5; }}}};  // blocks of pairs; of the own one a half
  return kLab;
}

}  // namespace cohort::labs::lab07_tensor_parallel
