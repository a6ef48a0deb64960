#include "optim/loss_scale.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

constexpr double kGrowth = 2.0;
constexpr double kBackOff = 0.5;

OwnLossScaleRule& own_rule() {
  static OwnLossScaleRule rule;
  return rule;
}

}  // namespace

void use_own_loss_scale_rule(OwnLossScaleRule rule) { own_rule() = std::move(rule); }

LossScale::LossScale(const LossScaleOptions& options) : options_(options), scale_(options.initial) {
  COHORT_CHECK(options.minimum > 0.0 && options.initial >= options.minimum && options.growth_interval >= 1,
               "loss scale {} with minimum {} and interval {}", options.initial, options.minimum, options.growth_interval);
}

LossScale LossScale::none() {
  if (own_rule())
    throw SharedError(ExitCode::usage, "a loss scale of your own is for precision.policy = \"fp16\": no other has one");
  LossScale fixed({.initial = 1.0, .minimum = 1.0, .growth_interval = 1});
  fixed.active_ = false;
  return fixed;
}

bool LossScale::update(bool overflowed) {
  if (!active_) return true;
  if (const OwnLossScaleRule& rule = own_rule()) {
    const bool steps = rule(scale_, good_steps_, options_, overflowed);
    if (!std::isfinite(scale_) || scale_ <= 0.0 || good_steps_ < 0)
      throw SharedError(ExitCode::usage,
                        fmt::format("your own rule makes the loss scale {} after {} good steps: a scale is finite "
                                    "and above 0",
                                    scale_, good_steps_));
    return steps;
  }
  if (!overflowed) {
    if (++good_steps_ < options_.growth_interval) return true;
    scale_ = std::min(scale_ * kGrowth, options_.largest());
    good_steps_ = 0;
    return true;
  }
  good_steps_ = 0;
  if (scale_ * kBackOff < options_.minimum) return false;
  scale_ *= kBackOff;
  return true;
}

std::string LossScale::at_minimum_in_words() const {
  return fmt::format(
      "fp16 overflows although the loss is scaled by only {}, near the floor precision.min_loss_scale = {}: training has "
      "diverged, or the model needs more range; lower optimizer.learning_rate, or set precision.policy = \"bf16\"",
      scale_, options_.minimum);
}

void LossScale::restore(double scale, Count good_steps) {
  if (!active_) return;
  if (!(scale > 0.0) || std::isinf(scale) || good_steps < 0) {
    fail(ExitCode::checkpoint, "the checkpoint's loss scale is {} after {} good steps: damaged or edited", scale, good_steps);
  }
  scale_ = scale;
  good_steps_ = good_steps;
}

}  // namespace cohort
