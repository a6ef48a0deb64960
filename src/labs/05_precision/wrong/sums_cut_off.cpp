// sum_both_ways: which is not the sum rounded to nearest after each addition
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

// Cuts off instead of rounding, after each addition.
BothSums sum_both_ways(std::span<const std::uint16_t> values) {
  std::uint16_t in_bf16 = 0;
  float in_fp32 = 0.0f;
  for (const std::uint16_t value : values) {
    in_bf16 = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number(in_bf16) + number(value)) >> 16);
    in_fp32 += number(value);
  }
  return {.in_bf16 = in_bf16, .in_fp32 = rounded(in_fp32)};
}
