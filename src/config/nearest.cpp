#include "config/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace cohort {

std::string nearest_fits(Count from, Count high, const std::function<bool(Count)>& fits) {
  std::vector<std::string> found;
  for (Count value = std::min(from - 1, high); value >= 1; --value) {
    if (fits(value)) {
      found.push_back(fmt::format("{}", value));
      break;
    }
  }
  for (Count value = from + 1; value <= high; ++value) {
    if (fits(value)) {
      found.push_back(fmt::format("{}", value));
      break;
    }
  }
  return found.empty() ? "none" : join(found, " or ");
}

std::string nearest_multiples(Count value, Count unit) {
  const Count below = value / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

}  // namespace cohort
