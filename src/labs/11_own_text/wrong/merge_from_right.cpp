// merge_pair: merges go from left to right
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

// From the end.
void merge_pair(std::vector<int>& tokens, int left, int right, int merged) {
  for (std::size_t i = tokens.size(); i-- > 1;) {
    if (i >= tokens.size() || tokens[i - 1] != left || tokens[i] != right) continue;
    tokens[i - 1] = merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
  }
}
