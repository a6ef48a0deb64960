// best_pair: a word counts as often as the text has it
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

// Each word once.
BpePair best_pair(std::span<const BpeWord> words) {
  std::map<std::pair<int, int>, long> counts;
  for (const BpeWord& word : words)
    for (std::size_t i = 1; i < word.tokens.size(); ++i) counts[{word.tokens[i - 1], word.tokens[i]}] += 1;
  BpePair best{-1, -1, 0};
  for (const auto& [pair, count] : counts)
    if (count > best.count) best = {pair.first, pair.second, count};
  return best;
}
