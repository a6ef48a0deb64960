// best_pair: not across two
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

// The words are joined.
BpePair best_pair(std::span<const BpeWord> words) {
  std::vector<int> all;
  for (const BpeWord& word : words)
    for (long n = 0; n < word.count; ++n) all.insert(all.end(), word.tokens.begin(), word.tokens.end());
  std::map<std::pair<int, int>, long> counts;
  for (std::size_t i = 1; i < all.size(); ++i) ++counts[{all[i - 1], all[i]}];
  BpePair best{-1, -1, 0};
  for (const auto& [pair, count] : counts)
    if (count > best.count) best = {pair.first, pair.second, count};
  return best;
}
