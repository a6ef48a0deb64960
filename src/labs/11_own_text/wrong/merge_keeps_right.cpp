// merge_pair: becomes
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

// The right token stays.
void merge_pair(std::vector<int>& tokens, int left, int right, int merged) {
  std::vector<int> result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool here = i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
    result.push_back(here ? merged : tokens[i]);
  }
  tokens = result;
}
