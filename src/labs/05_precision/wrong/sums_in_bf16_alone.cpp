// sum_both_ways: it is rounded in between
#include <bit>
#include <cohort/lab05_precision.hpp>
#include <cstdint>
#include <span>

namespace {

float number(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace

// Rounds both sums after each addition.
BothSums sum_both_ways(std::span<const std::uint16_t> values) {
  std::uint16_t sum = 0;
  for (const std::uint16_t value : values) sum = rounded(number(sum) + number(value));
  return {.in_bf16 = sum, .in_fp32 = sum};
}
