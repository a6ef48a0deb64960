// Learning a BPE vocabulary (Sennrich et al. 2016, algorithm 1, over bytes): the pair of tokens that occurs most often side by
// side becomes a token, again and again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.hpp"
#include "data/bpe/bpe_model.hpp"

namespace cohort {

/// How often each piece occurs. Sums of counts of parts of a text are those of the text, so ranks count parts of their own.
using PieceCounts = std::unordered_map<std::string, Count>;

/// Adds the pieces of a text.
void count_pieces(const SplitPattern& pattern, std::string_view text, PieceCounts& counts);

/// Counts as text that other ranks can add to theirs.
std::string pack_counts(const PieceCounts& counts);
void add_packed_counts(std::string_view packed, PieceCounts& counts);

/// Where to cut a text next, at `wanted` or behind it: behind a single line feed between two characters that are no spaces, or
/// before a single space between two letters of ASCII. There each named pattern ends a piece, so that the parts have the pieces
/// of the whole. The end of the text if there is no such place.
std::size_t cut_between_pieces(std::string_view text, std::size_t wanted);

struct BpeTraining {
  Count vocabulary = 0;              // tokens in all: the 256 bytes, merges and special tokens
  std::vector<std::string> special;  // texts; their ids are the last
  Count least = 2;                   // pairs that occur less often are not merged: the vocabulary is smaller then
};

/// The bytes have the ids 0 to 255 in the order of their letters (data/bpe/byte_letters.hpp) as in GPT-2, merges follow in the
/// order in which they were learned. Of pairs that occur equally often the one of the smaller ids is merged: the same counts give
/// the same vocabulary, whatever order they came in. `progress`: the share of merges done. Throws Error(usage) if the size leaves
/// no room for the bytes and special tokens.
BpeVocabulary train_bpe(const PieceCounts& counts, const BpeTraining& training, const std::function<void(double)>& progress = {});

}  // namespace cohort
