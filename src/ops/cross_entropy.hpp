// Softmax and cross-entropy in one pass over the logits.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

inline constexpr std::int32_t kIgnoredTarget = -1;

/// Returns the sum over rows of -log softmax(logits)[target] (nats); rows whose target is kIgnoredTarget count nothing.
/// logits [R, V]. Targets must lie in [0, V) or be ignored: a COHORT_CHECK names the first that is neither.
double cross_entropy_forward(const Exec& exec, const Tensor& logits, std::span<const std::int32_t> targets);

/// As above, and overwrites logits with scale * (softmax(logits) - onehot(target)), the gradient of scale * loss; ignored rows
/// get 0. Moves 8 R V bytes.
double cross_entropy_forward_backward(const Exec& exec, const Tensor& logits, std::span<const std::int32_t> targets, float scale);

}  // namespace cohort::ops
