// Tokenizers: text to token ids and back.
//   byte   256 tokens, one per byte. Takes any file; the id is the byte.
//   char   one token per Unicode character (code point) that occurs in the text it was learned from, in the order of the code
//          points. Takes valid UTF-8 only.
// decode(encode(text)) == text for both. A tokenizer travels with the token file and with checkpoints in its serialised form,
// JSON:
//   {"kind": "byte"}   or   {"kind": "char", "code_points": [10, 32, 33, ...]}
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace cohort {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "byte", "char"
  virtual Count vocabulary_size() const = 0;
  virtual std::string serialise() const = 0;

  /// Encodes from text[position] on until `ids` is full or the text ends; moves position behind what was encoded and returns the
  /// number of tokens. For large texts, block by block. Throws Error(data) with `source` and the byte offset: invalid UTF-8, a
  /// character that is not in the vocabulary.
  virtual Count encode_some(std::string_view text, std::size_t& position, std::span<std::int32_t> ids,
                            std::string_view source) const = 0;

  /// The tokens of a whole text. `source` names it in errors.
  std::vector<std::int32_t> encode(std::string_view text, std::string_view source = "text") const;

  /// Throws Error(data) for an id outside of [0, vocabulary_size).
  std::string decode(std::span<const std::int32_t> ids) const;

  /// The text of one token.
  virtual std::string text_of(std::int32_t id) const = 0;

 protected:
  void check_id(std::int32_t id) const;
};

std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Learns the vocabulary of the texts. Throws Error(data): invalid UTF-8 (named by `sources`, one per text), no characters at
/// all.
std::unique_ptr<Tokenizer> learn_char_tokenizer(std::span<const std::string_view> texts, std::span<const std::string> sources);

/// The inverse of serialise(). Throws Error(data), saying that `source` holds a damaged or unknown tokenizer.
std::unique_ptr<Tokenizer> read_tokenizer(std::string_view serialised, std::string_view source);

}  // namespace cohort
