#include "base/random.hpp"

#include <cmath>
#include <numbers>

namespace cohort {

std::array<float, 4> CounterRandom::normals(std::uint64_t block) const {
  const auto w = words(block);
  std::array<float, 4> result;
  for (std::size_t pair = 0; pair < 2; ++pair) {
    // In (0, 1], so that the logarithm stays finite: an fp32 rounds the largest word up to 2^32.
    const float u1 = (static_cast<float>(w[2 * pair]) + 1.0f) * 0x1.0p-32f;
    const float angle = static_cast<float>(w[2 * pair + 1]) * (0x1.0p-32f * 2.0f * std::numbers::pi_v<float>);
    const float radius = std::sqrt(-2.0f * std::log(u1));
    result[2 * pair] = radius * std::cos(angle);
    result[2 * pair + 1] = radius * std::sin(angle);
  }
  return result;
}

}  // namespace cohort
