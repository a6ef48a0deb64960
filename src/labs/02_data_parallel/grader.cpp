// Lab 2: from one rank to data parallel. How each exercise is graded: grade_*.cpp; what real runs make of them:
// learners_strategies.cpp.
#include <algorithm>

#include "labs/02_data_parallel/data_parallel_graders.hpp"
#include "labs/02_data_parallel/learners_strategies.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab02_data_parallel {
namespace {

// For the questions.
constexpr double kTokens = 10e9, kParameters = 124e6, kFlopsPerSecond = 4e14;

double seconds_of_training() { return 6.0 * kParameters * kTokens / kFlopsPerSecond; }

// 34 gradients, one each 0.3 ms, whose sums take `sum` each, one after the other: how long the last is done after backward.
double exposed_milliseconds(double sum) {
  double ready = 0.0, summed = 0.0;
  for (int gradient = 0; gradient < 34; ++gradient) {
    ready += 0.3;
    summed = std::max(ready, summed) + sum;
  }
  return summed - ready;
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 2,
      .folder = "02_data_parallel",
      .title = "From one rank to data parallel",
      .minutes = 150,
      .run_file = "lab02_mlp.toml",
      .ranks = 4,
      .exercises = {{.name = "samples_of_rank", .task = "who trains on which sample", .grade = grade_samples},
                    {.name = "average_gradients", .task = "two replicas by hand", .grade = grade_average},
                    {.name = "mean_over_ranks", .task = "one loss from many", .grade = grade_mean},
                    {.name = "naive_data_parallel", .task = "all-reduce after backward", .grade = grade_naive, .use = use_naive},
                    {.name = "gradient_hooks", .task = "all-reduce during backward", .grade = grade_hooks, .use = use_hooks},
                    {.name = "assign_buckets", .task = "few large messages", .grade = grade_buckets, .use = use_buckets}},
      .questions = {{"q1", [] { return seconds_of_training() / 3600.0; }},
                    {"q2", [] { return 1e6 / (64.0 * 8.0); }, 0.0001},
                    {"q3", [] { return (12.0 * 3.0 + 4.0 * 1.0) / 16.0; }},
                    {"q4", [] { return exposed_milliseconds(0.4); }},
                    {"q5", [] { return exposed_milliseconds(0.2); }}}};
  return kLab;
}

}  // namespace cohort::labs::lab02_data_parallel
