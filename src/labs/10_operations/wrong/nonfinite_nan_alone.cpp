// first_nonfinite: it finds step 4, order 1, rank 0: it was earlier in step 4, order 0, rank 0
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

using cohort::lab::Link;

// Infinity is overlooked.
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first) {
  const auto when = [&](std::size_t i) { return std::tuple(seen[i].step, seen[i].order, seen[i].rank); };
  bool found = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto bad = std::find_if(seen[i].values.begin(), seen[i].values.end(), [](float value) { return std::isnan(value); });
    if (bad == seen[i].values.end() || (found && when(first.tensor) <= when(i))) continue;
    first = {.tensor = i, .element = static_cast<std::size_t>(bad - seen[i].values.begin())};
    found = true;
  }
  return found;
}
