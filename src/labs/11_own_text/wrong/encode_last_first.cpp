// bpe_encode: that was learned last first
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

// The last merge first.
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges) {
  for (;;) {
    std::size_t best = 0, place = 0;
    for (std::size_t i = 1; i < tokens.size(); ++i)
      for (std::size_t rank = merges.size(); rank-- > 0;) {
        if (tokens[i - 1] != merges[rank].left || tokens[i] != merges[rank].right) continue;
        if (place == 0 || rank > best) best = rank, place = i;
        break;
      }
    if (place == 0) return;
    tokens[place - 1] = merges[best].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place));
  }
}
