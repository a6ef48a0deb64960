// pack_documents: its document goes on in the next row
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

// No target at the end of a row.
void pack_documents(std::span<const std::vector<int>> documents, std::size_t context, PackedRows& rows) {
  rows = {};
  std::vector<int> all, targets, positions;
  for (const std::vector<int>& document : documents)
    for (std::size_t i = 0; i < document.size(); ++i) {
      all.push_back(document[i]);
      targets.push_back(i + 1 < document.size() ? document[i + 1] : -1);
      positions.push_back(static_cast<int>(i));
    }
  for (std::size_t i = 0; i < all.size(); ++i) {
    rows.tokens.push_back(all[i]);
    rows.targets.push_back(i % context + 1 == context ? -1 : targets[i]);
    rows.positions.push_back(std::min(positions[i], static_cast<int>(i % context)));
  }
  while (rows.tokens.size() % context != 0) {
    rows.tokens.push_back(0);
    rows.targets.push_back(-1);
    rows.positions.push_back(0);
  }
}
