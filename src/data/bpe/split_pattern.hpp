// The regular expression that cuts text into pieces before byte-pair merges: merges never cross a piece. PCRE2, compiled to
// machine code where it can do so; pieces of ASCII by hand for the published expressions (data/bpe/ascii_pieces.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "data/bpe/ascii_pieces.hpp"

namespace cohort {

/// Patterns by name, as published with GPT-2 (Radford et al. 2019) and with the vocabulary cl100k_base of OpenAI's tiktoken.
/// "" if there is none of the name.
std::string_view named_split_pattern(std::string_view name);

class SplitPattern {
 public:
  /// `expression`: a name of above, or a regular expression in the dialect of Hugging Face's tokenizer.json and of tiktoken,
  /// which PCRE2 takes but for the meaning of \s: White_Space of Unicode, as there. Throws Error(data) with the place in the
  /// expression.
  explicit SplitPattern(std::string expression);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;

  const std::string& expression() const { return expression_; }

  /// The end of the piece that begins at text[begin]; begin < text.size(). The pieces of a text, one behind the other, are the
  /// text. What the expression does not match, above all bytes that are not UTF-8, is a piece of its own. No piece is longer than
  /// kLongest: longer ones are cut, so that memory is bounded whatever the text.
  std::size_t end_of_piece(std::string_view text, std::size_t begin) const;
  static constexpr std::size_t kLongest = std::size_t{1} << 20;
  /// The same by the expression alone.
  std::size_t end_by_expression(std::string_view text, std::size_t begin) const;

 private:
  struct Compiled;
  std::string expression_;
  const AsciiRules* ascii_ = nullptr;  // null: not a published expression
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace cohort
