#include "base/random.hpp"

#include <cmath>
#include <numbers>

namespace cohort {

double CounterRandom::normal(std::uint64_t index) const {
  const auto w = words(index);
  const double u1 = (static_cast<double>(w[0]) + 1.0) * 0x1.0p-32;  // in (0, 1]: the logarithm stays finite
  const double u2 = static_cast<double>(w[1]) * 0x1.0p-32;
  return std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2);
}

}  // namespace cohort
