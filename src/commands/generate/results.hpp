// The texts of `cohort generate` on standard output, as they come.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer.hpp"
#include "train/text_stream.hpp"

namespace cohort {

enum class ResultForm {
  stream,    // one text, shown as it comes
  sections,  // each behind a line with its number, when it is whole
  json       // a JSON object a line each, when it is whole
};

struct ResultOptions {
  ResultForm form = ResultForm::stream;
  bool prints = true;  // else texts are followed, but another rank prints them
  bool with_prompt = true;
  std::size_t texts = 1;   // of each prompt
  std::size_t tokens = 0;  // of each text, at most
  std::vector<std::string> stops;
};

/// Follows all texts. Those that are shown whole come in the order of their numbers.
class Results {
 public:
  Results(const Tokenizer& tokenizer, std::vector<std::string> prompts, ResultOptions options);

  /// A token of text `number`, as generate() counts them. Returns whether the text goes on. Throws Error(io) if standard output
  /// cannot be written.
  bool put(std::size_t number, std::int32_t token);

 private:
  struct Text {
    TextStream stream;
    std::vector<std::int32_t> tokens;
    bool done = false;
  };
  void show_piece(const Text& text, const std::string& piece) const;
  void show_whole(std::size_t number) const;

  std::vector<std::string> prompts_;
  ResultOptions options_;
  std::vector<Text> texts_;
  std::size_t shown_ = 0;  // whole ones
};

}  // namespace cohort
