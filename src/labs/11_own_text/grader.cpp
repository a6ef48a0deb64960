// Lab 11: the whole workflow on your own text. What each is graded by: grade_*.cpp.
#include <cmath>
#include <numbers>

#include "labs/11_own_text/grade_text.hpp"

namespace cohort::labs::lab11_own_text {
namespace {

constexpr double kLoss = 3.2, kBytesOfToken = 4.2;  // of the questions: nats per token, bytes per token

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 11,
      .folder = "11_own_text",
      .title = "The whole workflow on your own text",
      .minutes = 150,
      .run_file = "lab11_own_text.toml",
      .ranks = 2,
      .exercises = {{.name = "best_pair", .task = "the most frequent pair of tokens", .grade = grade_best_pair},
                    {.name = "merge_pair", .task = "a pair becomes one token", .grade = grade_merge_pair},
                    {.name = "bpe_encode", .task = "text to tokens, by the merges that were learned", .grade = grade_encode},
                    {.name = "split_documents", .task = "a held-out split that duplicates cannot cross", .grade = grade_split},
                    {.name = "pack_documents", .task = "documents into rows of context tokens", .grade = grade_packing},
                    {.name = "bits_per_byte", .task = "a loss that tokenizers share", .grade = grade_bits},
                    {.name = "sample_top_p",
                     .task = "the next token, from temperature, top-k and top-p",
                     .grade = grade_sampling,
                     .use = use_sampling}},
      .questions = {{"q1", [] { return kLoss / std::numbers::ln2 / kBytesOfToken; }},
                    {"q2", [] { return std::exp(kLoss / kBytesOfToken); }},
                    {"q3", [] { return 1.0 - std::pow(0.9, 5.0) - std::pow(0.1, 5.0); }},
                    {"q4", [] { return 2.0 * 32'000.0 * 512.0 / 1e6; }},
                    {"q5", [] { return std::exp(2.0 / 0.5); }},
                    {"q6", [] { return 1e9 / kBytesOfToken / (1024.0 * 256.0); }}}};
  return kLab;
}

}  // namespace cohort::labs::lab11_own_text
