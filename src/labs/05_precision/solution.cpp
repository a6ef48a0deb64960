// Lab 5: one way to write it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cohort/lab05_precision.hpp>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

using cohort::lab::Link;

namespace {

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// 1 if this is so on any rank, on all ranks: to rank 0 and back.
bool anywhere(Link& link, bool here) {
  float own = here ? 1.0f : 0.0f;
  if (link.rank() != 0) {
    link.send(0, {&own, 1});
    link.receive(0, {&own, 1});
    return own > 0.0f;
  }
  for (int r = 1; r < link.ranks(); ++r) {
    float other = 0.0f;
    link.receive(r, {&other, 1});
    own = std::max(own, other);
  }
  for (int r = 1; r < link.ranks(); ++r) link.send(r, {&own, 1});
  return own > 0.0f;
}

}  // namespace

// 5.1
std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Its payload may lie in the lower half alone, without which it would be an infinity; the upper one must not carry.
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  const std::uint32_t last = (bits >> 16) & 1u;  // a tie goes up if the last bit is 1, and so becomes even
  return static_cast<std::uint16_t>((bits + 0x7fffu + last) >> 16);
}

// 5.2
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double weight) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double smallest_normal = std::ldexp(1.0, 1 - bias);
  FormatFacts facts{.largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias),
                    .smallest_normal = smallest_normal,
                    .smallest = std::ldexp(smallest_normal, -mantissa_bits),
                    .gap = 0.0,
                    .lost_below = 0.0};
  const int exponent = std::max(std::ilogb(weight), 1 - bias);  // subnormal numbers have the steps of the first normal ones
  facts.gap = std::ldexp(1.0, exponent - mantissa_bits);
  facts.lost_below = facts.gap / 2.0;
  return facts;
}

// 5.3
std::uint16_t round_stochastically(float value, std::uint16_t random) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + random) >> 16);
}

// 5.4
BothSums sum_both_ways(std::span<const std::uint16_t> values) {
  BothSums sums{.in_bf16 = 0, .in_fp32 = 0};
  float running = 0.0f;
  for (const std::uint16_t value : values) {
    sums.in_bf16 = round_to_bf16(from_bf16(sums.in_bf16) + from_bf16(value));
    running += from_bf16(value);
  }
  sums.in_fp32 = round_to_bf16(running);
  return sums;
}

// 5.5
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed) {
  if (overflowed) {
    state.good_steps = 0;
    if (state.scale / 2.0 < rule.minimum) return false;
    state.scale /= 2.0;
    return true;
  }
  if (++state.good_steps < rule.growth_interval) return true;
  state.good_steps = 0;
  state.scale = std::min(2.0 * state.scale, rule.largest);
  return true;
}

// 5.6
bool unscale_and_check(Link& link, std::span<float> gradients, float scale) {
  bool found = false;
  for (float& gradient : gradients) {
    gradient /= scale;
    found = found || !std::isfinite(gradient);
  }
  return anywhere(link, found);
}

// 5.7
Policy precision_policy(std::string_view name) {
  Policy policy{.compute = Type::fp32, .reduce = Type::fp32, .master = Type::fp32, .loss_scaling = false};
  if (name == "fp32") return policy;
  if (name == "bf16") {
    policy.compute = Type::bf16;
    return policy;
  }
  if (name == "fp16") {
    policy.compute = Type::fp16;
    policy.loss_scaling = true;
    return policy;
  }
  throw std::invalid_argument("no precision policy is called '" + std::string(name) + "': there are fp32, bf16 and fp16");
}
