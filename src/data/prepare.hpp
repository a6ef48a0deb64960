// Texts to a token file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {

struct PrepareOptions {
  std::vector<std::string> inputs;  // text files, joined in this order with nothing between them
  std::string output;               // replaced if it exists
  std::string tokenizer = "byte";   // a kind (data/tokenizer_kind.hpp), or what open_tokenizer() takes
  double validation = 0.1;          // share of the tokens
  TokenizerLearning learning{};     // of a kind that is learned
};

struct Prepared {
  Count train = 0;  // tokens
  Count validation = 0;
  std::string tokenizer;  // its kind
  Count vocabulary_size = 0;
  std::optional<TokenEntropy> entropy;
  std::vector<std::string> notes;  // what a user may want to know about the texts: CRLF, a byte order mark
};

/// Throws as prepare_tokens() does for options that cannot be.
void check_prepare_options(const PrepareOptions& options);

/// Reads the texts, learns the vocabulary and writes the token file. The validation split is the tail of the joined text,
/// cut at a token: contiguous, so that no validation window has been seen in training. Bytes are kept as they are: CRLF stays
/// CRLF. The entropy is carried over when every text is an unchanged synthetic corpus. Memory: the texts and a few MiB.
/// `progress`: the share of bytes done. Throws Error(io) for files that cannot be read or written; Error(data): an empty text,
/// invalid UTF-8 or a character that the tokenizer does not know, too few tokens; Error(usage): an unknown tokenizer, a share
/// outside of (0, 1), an output that is one of the inputs.
Prepared prepare_tokens(const PrepareOptions& options, const std::function<void(double)>& progress = {});

}  // namespace cohort
