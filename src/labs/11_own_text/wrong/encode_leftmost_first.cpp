// bpe_encode: that is the leftmost merge first
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

// Whatever is possible, from left to right.
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 1; i < tokens.size() && !changed; ++i)
      for (const BpeMerge& merge : merges) {
        if (tokens[i - 1] != merge.left || tokens[i] != merge.right) continue;
        tokens[i - 1] = merge.merged;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
        break;
      }
  }
}
