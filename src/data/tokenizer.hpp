// Tokenizers: text to token ids and back, decode(encode(text)) == text (but see losses()). The kinds are a file each in
// data/tokenizers (data/tokenizer_kind.hpp says how to add one). A tokenizer travels with the token file and with checkpoints in
// its serialised form, JSON with the name of its kind: {"kind": "byte"}.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "data/text_source.hpp"

namespace cohort {

struct BpeModel;

/// A token that text cannot spell: it stands for a position such as the end of a document.
struct SpecialToken {
  std::string text;  // how people write it: "<|endoftext|>"
  std::int32_t id = 0;

  bool operator==(const SpecialToken&) const = default;
};

/// Some tokenizers remember what they have met: one thread at a time.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // its name
  virtual Count vocabulary_size() const = 0;
  virtual std::string serialise() const = 0;
  /// How many tokens a text has that it can encode.
  virtual Count count(std::string_view text) const = 0;

  /// None for kinds that have none. Text never becomes one of them, whatever it spells, but by encode_with_special().
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }
  /// What a BPE tokenizer is made of, for who writes it in another form; null for other kinds.
  virtual const BpeModel* bpe() const { return nullptr; }

  /// At most so many tokens come of a text of so many bytes.
  virtual std::size_t most_tokens(std::size_t bytes) const { return bytes; }
  /// Encodes from text[position] on until `ids` has no room or the text ends; moves position behind what was encoded and returns
  /// the number of tokens. For large texts, block by block; a block has room for most_tokens() of kLeastBlock bytes, or of the
  /// text. Throws Error(data) with `source` and the byte offset: invalid UTF-8, a character that is not in the
  /// vocabulary.
  virtual Count encode_some(std::string_view text, std::size_t& position, std::span<std::int32_t> ids,
                            const TextSource& source) const = 0;

  static constexpr std::size_t kLeastBlock = std::size_t{1} << 20;

  /// The tokens of a whole text. `source` names it in errors, and says whether it begins a document.
  std::vector<std::int32_t> encode(std::string_view text, const TextSource& source = "text") const;
  /// The same, but what spells a special token is one; of several that begin at one place the longest.
  std::vector<std::int32_t> encode_with_special(std::string_view text, std::string_view source = "text") const;

  /// Throws Error(data) for an id outside of [0, vocabulary_size).
  virtual std::string decode(std::span<const std::int32_t> ids) const;

  /// What decode(encode(text)) does not give back of some texts, for people; "" if it always gives back the text.
  virtual std::string losses() const { return ""; }

  /// The text of one token.
  virtual std::string text_of(std::int32_t id) const = 0;

 protected:
  void check_id(std::int32_t id) const;
};

/// The id of a special token. Throws Error(usage), beginning with `option`, if the tokenizer has none of the text.
std::int32_t special_token(const Tokenizer& tokenizer, const std::string& text, std::string_view option);

/// The inverse of serialise(). Throws Error(data), saying that `source` holds a damaged or unknown tokenizer.
std::unique_ptr<Tokenizer> read_tokenizer(std::string_view serialised, std::string_view source);

}  // namespace cohort
