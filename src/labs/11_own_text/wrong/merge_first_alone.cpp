// merge_pair: side by side at 2 places
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

// The first place alone.
void merge_pair(std::vector<int>& tokens, int left, int right, int merged) {
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i - 1] != left || tokens[i] != right) continue;
    tokens[i - 1] = merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}
