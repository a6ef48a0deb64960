// best_pair: each place in a word counts, also where two overlap
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

// Places that overlap count once.
BpePair best_pair(std::span<const BpeWord> words) {
  std::map<std::pair<int, int>, long> counts;
  for (const BpeWord& word : words)
    for (std::size_t i = 1; i < word.tokens.size(); ++i) {
      counts[{word.tokens[i - 1], word.tokens[i]}] += word.count;
      if (i + 1 < word.tokens.size() && word.tokens[i - 1] == word.tokens[i] && word.tokens[i] == word.tokens[i + 1]) ++i;
    }
  BpePair best{-1, -1, 0};
  for (const auto& [pair, count] : counts)
    if (count > best.count) best = {pair.first, pair.second, count};
  return best;
}
