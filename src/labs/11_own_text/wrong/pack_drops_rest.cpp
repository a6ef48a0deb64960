// pack_documents: what fills no row is lost
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

// Whole rows alone.
void pack_documents(std::span<const std::vector<int>> documents, std::size_t context, PackedRows& rows) {
  rows = {};
  std::vector<int> all, targets, positions;
  for (const std::vector<int>& document : documents)
    for (std::size_t i = 0; i < document.size(); ++i) {
      all.push_back(document[i]);
      targets.push_back(i + 1 < document.size() ? document[i + 1] : -1);
      positions.push_back(static_cast<int>(i));
    }
  const std::size_t whole = all.size() / context * context;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i % context == 0 || positions[i] == 0)
      positions[i] = 0;
    else
      positions[i] = positions[i - 1] + 1;
    rows.tokens.push_back(all[i]);
    rows.targets.push_back(targets[i]);
    rows.positions.push_back(positions[i]);
  }
}
