// Softmax and cross-entropy in one pass over the logits.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

inline constexpr std::int32_t kIgnoredTarget = -1;

/// loss_sum [1] (fp64) += sum over rows of -log softmax(logits)[target] (nats); rows whose target is kIgnoredTarget count
/// nothing. logits [R, >= V]: the first V = `classes` of each row count, the rest is padding. Targets must lie in [0, V) or be
/// ignored: on the CPU a COHORT_CHECK names the first that is neither; on a GPU whoever copied them there has checked them.
void cross_entropy_forward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                           std::span<const std::int32_t> targets);

/// As above, and overwrites logits with scale * (softmax(logits) - onehot(target)), the gradient of scale * loss; ignored rows
/// and padding get 0. Moves twice the bytes of logits.
void cross_entropy_forward_backward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                    std::span<const std::int32_t> targets, float scale);

}  // namespace cohort::ops
