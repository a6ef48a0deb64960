// What is in a token file, for people who want to see whether it is what they meant.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/units.hpp"
#include "data/progress_callback.hpp"
#include "data/token_file.hpp"

namespace cohort {

struct TokenPlace {
  Split split = Split::train;
  Count token = 0;  // from the start of the split
};

/// Something that tokens have and should not.
struct BadTokens {
  Count count = 0;
  std::optional<TokenPlace> first{};
};

/// Lengths in tokens; a document that the splits divide counts as two.
struct DocumentLengths {
  Count documents = 0;  // 0: the file does not say
  Count tokens = 0;
  Count shortest = 0, longest = 0;
  std::vector<Count> by_size;  // [i]: documents of 2^i to 2^(i+1) - 1 tokens
};

struct TokenStatistics {
  std::vector<Count> counts;  // of each id
  BadTokens not_utf8;         // bytes, in the texts of all tokens of a split one behind the other
  BadTokens without_text;     // ids that the vocabulary leaves free
  DocumentLengths documents;
  std::array<Count, 2> counted{};  // of conversations, tokens of each split that count as targets
};

/// Reads the whole file, which also verifies it. Errors: as TokenFile::verify(), also for ids outside of the vocabulary.
TokenStatistics statistics_of(const TokenFile& file, const Progress& progress = {});

}  // namespace cohort
