// first_nonfinite: it finds step 5, order 9, rank 0: it was earlier in step 5, order 2, rank 3
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

// Looks at rank 0 first, whom the all-reduce has given the NaN of another rank.
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first) {
  const auto when = [&](std::size_t i) { return std::tuple(seen[i].step, seen[i].rank, seen[i].order); };
  bool found = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto bad =
        std::find_if(seen[i].values.begin(), seen[i].values.end(), [](float value) { return !std::isfinite(value); });
    if (bad == seen[i].values.end() || (found && when(first.tensor) <= when(i))) continue;
    first = {.tensor = i, .element = static_cast<std::size_t>(bad - seen[i].values.begin())};
    found = true;
  }
  return found;
}
