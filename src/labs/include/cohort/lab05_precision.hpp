// Lab 5: mixed precision. A binary format is a sign, an exponent and a mantissa (the fraction behind the leading 1):
//
//   fp32  1 + 8 + 23 bits      bf16  1 + 8 + 7      fp16  1 + 5 + 10
//
// A bf16 number is kept as its 16 bits, which are the upper half of the same number in fp32.
#pragma once

#include <cohort/lab.hpp>
#include <cstdint>
#include <span>
#include <string_view>

extern "C" {

/// 5.1: the bf16 nearest to `value`, as bits. Of two that are equally near, the one whose last bit is 0 (round to nearest, ties
/// to even). What is beyond the largest bf16 by half a step or more becomes infinity; infinities, zeros and their signs stay; a
/// NaN of any bits becomes some NaN.
std::uint16_t round_to_bf16(float value);

/// 5.2: what a format of so many bits can tell apart. As in IEEE 754: the exponents of all zeros (zero and subnormal numbers) and
/// of all ones (infinity, NaN) are special, and the bias is 2^(exponent_bits - 1) - 1.
struct FormatFacts {
  double largest;          // finite number
  double smallest_normal;  // positive number with the full precision
  double smallest;         // positive number at all: the first subnormal one
  double gap;              // from `weight` to the next larger number
  double lost_below;       // an update u, 0 < u < lost_below, leaves a weight as it is: weight + u rounds to weight
};
/// `weight` is a positive number of the format, normal or subnormal, smaller than the largest.
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double weight);

/// 5.3: `value`, which is finite, as one of the two bf16 around it, by chance: up (away from zero) for so many of the 65,536
/// values of `random` as it is far from the lower one, in 65,536ths of the step between them. So the mean over all of `random` is
/// `value`. A value that is a bf16 stays itself.
std::uint16_t round_stochastically(float value, std::uint16_t random);

/// 5.4: the sum of bf16 numbers in two ways, in the order of the span. Of none: 0. The sums stay finite.
struct BothSums {
  std::uint16_t in_bf16;  // the running sum is a bf16: it is rounded (to nearest, as in 5.1) after each addition
  std::uint16_t in_fp32;  // the running sum is an fp32, rounded to bf16 once, at the end
};
BothSums sum_both_ways(std::span<const std::uint16_t> values);

/// 5.5: dynamic loss scaling after a step (Micikevicius et al. 2018, section 3.2; the rule of src/optim/loss_scale.hpp).
struct LossScale {
  double scale;             // multiplies the loss of the next step
  std::int64_t good_steps;  // in a row without overflow since `scale` last changed or a step overflowed
};
struct LossScaleRule {
  double minimum;                // `scale` never falls below it
  double largest;                // nor is it ever more: instead of doubling beyond it, it becomes this
  std::int64_t growth_interval;  // good steps in a row after which `scale` doubles, and the count begins anew
};
/// An overflow halves the scale, and the count begins anew. If half would be less than the minimum, the scale stays, and the
/// result is false: the run must stop. Else it is true. (The caller skips the update of a step that overflows.)
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed);

/// 5.6: divides this rank's gradients by `scale`, a power of two, and says whether any gradient of any rank is not finite (NaN or
/// infinity). All ranks call it at the same time, with different gradients, any number of them, and all get the same answer. No
/// rank sends more than 2 (n - 1) numbers.
bool unscale_and_check(cohort::lab::Link& link, std::span<float> gradients, float scale);

/// 5.7: which types a step has.
enum class Type { fp32, bf16, fp16 };
struct Policy {
  Type compute;       // of activations, and of the weights as layers read them
  Type reduce;        // in which gradients are summed over ranks: the safe choice, as Cohort's
  Type master;        // of the weights that the optimizer updates, and of its state
  bool loss_scaling;  // whether the loss is scaled
};
/// `name` is "fp32", "bf16" or "fp16". Any other throws std::invalid_argument, whose words have the wrong name in them and the
/// three that would be right.
Policy precision_policy(std::string_view name);
}
