// bpe_encode: stand side by side, and merge
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

// One merge alone.
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges) {
  for (const BpeMerge& merge : merges)
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      if (tokens[i - 1] != merge.left || tokens[i] != merge.right) continue;
      tokens[i - 1] = merge.merged;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
}
