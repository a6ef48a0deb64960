// round_stochastically: goes away from zero for 49153 of the 65536 values of random
#include <bit>
#include <cohort/lab05_precision.hpp>
#include <cstdint>

// <= for <: a number that is a bf16 does not always stay.
std::uint16_t round_stochastically(float value, std::uint16_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto upper = static_cast<std::uint16_t>(bits >> 16);
  return random <= (bits & 0xffffu) ? static_cast<std::uint16_t>(upper + 1) : upper;
}
