// round_to_bf16: what makes it a NaN was in the lower half
#include <bit>
#include <cohort/lab05_precision.hpp>
#include <cstdint>

// Rounds a NaN like any number.
std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
