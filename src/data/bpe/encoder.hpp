// Pieces of text to tokens by a BPE vocabulary: the merge of the smallest rank first, of equal ranks the leftmost, until no two
// neighbours merge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/bpe_vocabulary.hpp"

namespace cohort {

/// Remembers pieces that it has met, since most of a text are words that come again. For one thread at a time.
class BpeEncoder {
 public:
  /// How many pieces are remembered: 8 MiB, taken when the first one is encoded.
  static constexpr std::size_t kKnown = std::size_t{1} << 17;

  /// `vocabulary` must outlive the encoder.
  explicit BpeEncoder(const BpeVocabulary& vocabulary) : vocabulary_(vocabulary) {}

  /// The tokens of a piece (data/bpe/split_pattern.hpp), written to the front of `ids`: at least one, at most one for each byte,
  /// for which there must be room. Returns their number.
  std::size_t encode_piece(std::string_view piece, std::span<TokenId> ids);

  /// The tokens of a piece by merges of smaller ranks than `limit` alone.
  std::vector<TokenId> merge_below(std::int32_t limit, std::string_view piece);

 private:
  // A piece and its tokens, in one line of the cache: to follow pointers costs as much as to compare the piece. Its bytes as four
  // words, which overlap where it has fewer than 32: with the size they are the piece, and are compared without a loop.
  struct alignas(64) Known {
    std::array<std::uint64_t, 4> words;
    std::array<TokenId, 7> ids;
    std::uint8_t size = 0;  // 0: free
    std::uint8_t count = 0;
  };
  static std::array<std::uint64_t, 4> words_of(std::string_view piece);
  std::size_t merge(std::string_view piece, TokenId* ids);
  std::size_t merge_short(std::string_view piece, std::int32_t limit, TokenId* ids);
  std::size_t merge_long(std::string_view piece, TokenId* ids);

  const BpeVocabulary& vocabulary_;
  std::vector<Known> known_;  // none or kKnown, by hash; a newcomer takes the place of who had it
  std::vector<BpeMerge> next_;
};

/// The merges of a vocabulary as a list. Those of merges by id are derived: the last merge of a token is of the two that its
/// bytes come to by all merges before. Throws Error(data) with `source` for a token that merges cannot make.
std::vector<BpeVocabulary::Pair> listed_merges(const BpeVocabulary& vocabulary, std::string_view source);

}  // namespace cohort
