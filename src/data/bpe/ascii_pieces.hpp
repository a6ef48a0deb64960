// The published split patterns, written out for text that is ASCII: most of a text is, and a regular expression takes longer over
// a word than its tokens do. What a hand-written rule cannot say it leaves to the expression (data/bpe/split_pattern.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace cohort {

/// How a published pattern cuts ASCII. All take contractions first ('s, 't, 're, 've, 'm, 'll, 'd).
struct AsciiRules {
  std::string_view name;  // for people; "" for expressions that files bring along
  std::string_view expression;
  /// As cl100k, Llama 3 and Qwen: one character that is no line end goes with the letters behind it, capitals make contractions,
  /// line ends go with the punctuation before them, and spaces up to a line end are a piece. Else as GPT-2: one space goes with
  /// the letters, digits or punctuation behind it.
  bool joins_line_ends = false;
  std::size_t most_digits = 0;       // of a piece; 0: any number
  bool ends_with_all_spaces = true;  // spaces at the end of a text are one piece, line ends or not
};

/// Of every published expression that is known.
std::span<const AsciiRules> ascii_rules();

/// The end of the piece that begins at text[begin], begin < text.size(): that of the expression. 0 if a byte beyond ASCII decides
/// it, or one more than kLooksAhead bytes behind `begin`.
std::size_t end_of_ascii_piece(const AsciiRules& rules, std::string_view text, std::size_t begin);
inline constexpr std::size_t kLooksAhead = 1024;

}  // namespace cohort
