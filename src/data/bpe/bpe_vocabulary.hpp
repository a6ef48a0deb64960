// The vocabulary of a byte-level BPE tokenizer (Sennrich et al. 2016, section 3.2; over bytes: Radford et al. 2019, section 2.2):
// the bytes of every token, and which two neighbours merge into which token, in which order.
//
// Two published kinds of files say that differently, and both are kept as they are, since they can differ in rare texts:
//   merges listed   (vocab.json and merges.txt, tokenizer.json) the pairs of the list merge, the earliest of the list first
//   merges by id    (tiktoken's rank files) any two tokens whose joined bytes are a token merge, the smallest id first
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "data/tokenizer.hpp"

namespace cohort {

using TokenId = std::int32_t;

/// Ids are below this: one number in a file must not take all memory.
inline constexpr std::int64_t kMostTokens = 10'000'000;

/// What one merge makes.
struct BpeMerge {
  std::int32_t rank = 0;  // smaller ones come first
  TokenId id = 0;
};

class BpeVocabulary {
 public:
  using Pair = std::pair<TokenId, TokenId>;

  /// `tokens`: the bytes of each id; empty for an id that only a special token has, or none. `merges`: listed, or nothing: by id.
  /// `whole_pieces`: a piece that is a token as a whole becomes that token, whatever the merges (always so with merges by id;
  /// "ignore_merges" of tokenizer.json).
  /// Throws Error(data) with `source` for a vocabulary that cannot work: one of the 256 bytes missing, two ids with the same
  /// bytes, a merge of or to what is no token, a special token with the id of another token, or without text.
  BpeVocabulary(std::vector<std::string> tokens, std::optional<std::vector<Pair>> merges, std::vector<SpecialToken> special,
                bool whole_pieces, std::string_view source);

  /// One more than the largest id, also where some ids below it are of no token.
  Count size() const { return static_cast<Count>(tokens_.size()); }
  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::optional<std::vector<Pair>>& merges() const { return merges_; }
  const std::vector<SpecialToken>& special() const { return special_; }

  TokenId id_of_byte(unsigned char byte) const { return bytes_[byte]; }
  /// The id of these bytes as one token, or -1.
  TokenId find(std::string_view bytes) const;
  bool whole_pieces() const { return whole_pieces_; }
  /// What a and b become side by side; null if they stay.
  const BpeMerge* merge_of(TokenId a, TokenId b) const;

 private:
  void index_tokens(std::string_view source);
  void index_merges(std::string_view source);
  void derive_merges(std::string_view source);
  void make_room(std::size_t merges);
  void add_merge(TokenId a, TokenId b, BpeMerge merge);
  void check_special(std::string_view source);
  std::size_t token_place(std::size_t hash, std::string_view bytes) const;  // where it is, or would be

  std::vector<std::string> tokens_;
  std::optional<std::vector<Pair>> merges_;
  std::vector<SpecialToken> special_;
  bool whole_pieces_ = false;
  std::array<TokenId, 256> bytes_{};
  // Both by open addressing. A token is looked up for every cut of every token of a rank file, a million times: the other half of
  // its hash tells it from most others without a look at its bytes.
  struct TokenSlot {
    std::uint32_t tag;
    TokenId id;  // -1: free
  };
  std::vector<TokenSlot> token_slots_;
  std::size_t token_mask_ = 0;
  // A merge is looked up for every pair of neighbours of every new word.
  struct Slot {
    std::uint64_t pair;
    BpeMerge made;
  };
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

}  // namespace cohort
