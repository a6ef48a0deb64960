// first_nonfinite: it was earlier in step
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

// Takes the order of the list for that of the time.
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first) {
  bool found = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto bad =
        std::find_if(seen[i].values.begin(), seen[i].values.end(), [](float value) { return !std::isfinite(value); });
    if (bad == seen[i].values.end() || found) continue;
    first = {.tensor = i, .element = static_cast<std::size_t>(bad - seen[i].values.begin())};
    found = true;
  }
  return found;
}
