// The text of a model as its tokens come: what of it can be shown, and where it stops.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer.hpp"

namespace cohort {

/// A token need not be whole characters, and a stop string need not begin or end with a token. So the end of the text is held
/// back while it may be the beginning of a character or of a stop string.
class TextStream {
 public:
  /// `stops`: none is empty. The tokenizer must outlive the stream.
  explicit TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops = {});

  /// Adds a token, and returns what can be shown now. Once stopped, tokens are ignored.
  std::string put(std::int32_t token);
  /// No token follows: returns what was held back.
  std::string finish();

  /// Whether a stop string has come. The text ends before it.
  bool stopped() const { return stopped_; }
  /// Of all tokens, shown or not.
  const std::string& text() const { return text_; }

 private:
  std::string show_up_to(std::size_t end);

  const Tokenizer* tokenizer_;
  std::vector<std::string> stops_;
  std::string text_;
  std::size_t shown_ = 0;
  bool stopped_ = false;
};

}  // namespace cohort
