// Pieces of text to tokens by a BPE vocabulary: the merge of the smallest rank first, of equal ranks the leftmost, until no two
// neighbours merge.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/bpe_vocabulary.hpp"

namespace cohort {

/// Remembers pieces that it has met, since most of a text are words that come again. For one thread at a time.
class BpeEncoder {
 public:
  /// `vocabulary` must outlive the encoder.
  explicit BpeEncoder(const BpeVocabulary& vocabulary);

  /// Appends the tokens of a piece (data/bpe/split_pattern.hpp): at least one, at most one for each byte.
  void encode_piece(std::string_view piece, std::vector<TokenId>& ids);

  /// The tokens of a piece by merges of smaller ranks than `limit` alone.
  std::vector<TokenId> merge_below(std::int32_t limit, std::string_view piece);

 private:
  // A piece and its tokens, in one line of the cache: to follow pointers costs as much as to compare the piece.
  struct alignas(64) Known {
    std::array<char, 30> bytes;
    std::uint8_t size = 0;  // 0: free
    std::uint8_t count = 0;
    std::array<TokenId, 8> ids;
  };
  Known& place_of(std::string_view piece);
  void merge(std::string_view piece, std::vector<TokenId>& ids);
  void merge_short(std::string_view piece, std::int32_t limit, std::vector<TokenId>& ids);
  void merge_long(std::string_view piece, std::vector<TokenId>& ids);

  const BpeVocabulary& vocabulary_;
  std::vector<Known> known_;  // by hash; a newcomer takes the place of who had it
  std::vector<std::int32_t> ranks_;
};

/// The merges of a vocabulary as a list. Those of merges by id are derived: the last merge of a token is of the two that its
/// bytes come to by all merges before. Throws Error(data) with `source` for a token that merges cannot make.
std::vector<BpeVocabulary::Pair> listed_merges(const BpeVocabulary& vocabulary, std::string_view source);

}  // namespace cohort
