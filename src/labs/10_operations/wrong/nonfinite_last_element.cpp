// first_nonfinite: of the right tensor, not
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

// The last bad element of the tensor.
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first) {
  const auto when = [&](std::size_t i) { return std::tuple(seen[i].step, seen[i].order, seen[i].rank); };
  bool found = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (std::size_t k = 0; k < seen[i].values.size(); ++k) {
      if (std::isfinite(seen[i].values[k]) || (found && when(first.tensor) < when(i))) continue;
      first = {i, k};
      found = true;
    }
  }
  return found;
}
