// Lab 5: mixed precision. What each function has to do is in <cohort/lab05_precision.hpp>.
//
//   cohort lab show 5        the handout        cohort lab check 5       are they right?
//   cohort lab hint 5.1      a hint             cohort lab run 5         train in fp16 with your loss scale
#include <bit>
#include <cmath>
#include <cohort/lab05_precision.hpp>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

using cohort::lab::Link;
using cohort::lab::not_written;

// 5.1
std::uint16_t round_to_bf16(float value) {
  (void)value;
  not_written();
}

// 5.2
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double weight) {
  (void)exponent_bits, (void)mantissa_bits, (void)weight;
  not_written();
}

// 5.3
std::uint16_t round_stochastically(float value, std::uint16_t random) {
  (void)value, (void)random;
  not_written();
}

// 5.4
BothSums sum_both_ways(std::span<const std::uint16_t> values) {
  (void)values;
  not_written();
}

// 5.5
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed) {
  (void)state, (void)rule, (void)overflowed;
  not_written();
}

// 5.6
bool unscale_and_check(Link& link, std::span<float> gradients, float scale) {
  (void)link, (void)gradients, (void)scale;
  not_written();
}

// 5.7
Policy precision_policy(std::string_view name) {
  (void)name;
  not_written();
}
