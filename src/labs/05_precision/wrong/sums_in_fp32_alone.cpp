// sum_both_ways: as exact as the other sum, so it was kept in fp32
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

// Keeps both sums in fp32.
BothSums sum_both_ways(std::span<const std::uint16_t> values) {
  float sum = 0.0f;
  for (const std::uint16_t value : values) sum += number(value);
  return {.in_bf16 = rounded(sum), .in_fp32 = rounded(sum)};
}
