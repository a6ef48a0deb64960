// bpe_encode: that is the longest token at each place
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

// The longest token of the vocabulary.
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges) {
  std::map<int, std::vector<int>> bytes;
  const auto bytes_of = [&](int token) { return bytes.contains(token) ? bytes[token] : std::vector<int>{token}; };
  for (const BpeMerge& merge : merges) {
    std::vector<int> all = bytes_of(merge.left);
    for (const int byte : bytes_of(merge.right)) all.push_back(byte);
    bytes[merge.merged] = all;
  }
  std::vector<int> result;
  for (std::size_t at = 0; at < tokens.size();) {
    int best = tokens[at];
    std::size_t length = 1;
    for (const auto& [token, all] : bytes) {
      if (all.size() <= length || at + all.size() > tokens.size()) continue;
      if (!std::equal(all.begin(), all.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at))) continue;
      best = token;
      length = all.size();
    }
    result.push_back(best);
    at += length;
  }
  tokens = result;
}
