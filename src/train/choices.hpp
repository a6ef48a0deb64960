// Multiple choice in the manner of HellaSwag (Zellers et al. 2019): which of several endings of a text does a model find
// likeliest? The questions are a JSONL file, an object a line:
//   {"ctx": "A man sits on a roof. He", "endings": ["is using wrap to ...", "is ripping level tiles off.", ...], "label": 3}
// `context` is another name for `ctx`, the label is the number of the right ending from 0, also as a string ("3"), other fields
// are ignored, and so are empty lines. Context and ending are tokenized each for itself, the ending with a space before it unless
// one of them has white space there; of what is longer than the model's context the beginning is left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.hpp"
#include "train/evaluate.hpp"

namespace cohort {

/// A context and one of its endings as a model reads them.
struct ChoiceSequence {
  std::vector<std::int32_t> inputs;   // [T]
  std::vector<std::int32_t> targets;  // [T] the next token; -1 before the ending, which alone counts
};

struct ChoiceQuestion {
  Count line = 0;  // in the file, from 1
  Count label = 0;
  std::vector<ChoiceSequence> endings = {};
  std::vector<Count> ending_bytes = {};  // of each text, without the space before it
};

/// The questions of a text, at most `limit` of them (0 = all). `path` is for messages; `context` is the model's. Throws
/// Error(data) with file and line: no JSON, a missing or empty field, fewer than two endings, a label without an ending, text
/// that the tokenizer does not know, an ending longer than the context; or a file without questions.
std::vector<ChoiceQuestion> read_choices(const std::string& text, const std::string& path, const Tokenizer& tokenizer,
                                         Count context, Count limit);

/// The same of a file that rank 0 reads. // Collective over: world
std::vector<ChoiceQuestion> open_choices(Communicator& world, const std::string& path, const Tokenizer& tokenizer, Count context,
                                         Count limit);

/// Scores the questions, an ending at a time, dealt out over `group`: ranks that each have a whole model, or parts of different
/// ones. Each ending is computed by itself, so the result does not depend on the number of ranks or the micro-batch. Throws
/// SharedError(training), naming `path` and line, if a log-likelihood is not a number.
// Collective over: group, and the ranks that hold parts of the model
ChoiceScores score_choices(const EvaluationContext& setup, Predictor& model, const std::vector<ChoiceQuestion>& questions,
                           const std::string& path, Communicator& group);

}  // namespace cohort
