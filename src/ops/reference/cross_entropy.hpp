// Softmax and cross-entropy: the nats that the model needs for the true next tokens, summed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

struct CrossEntropy {
  double loss = 0.0;  // sum over the rows that count
  Array dlogits;      // [R, V], gradient of scale * loss
};

/// loss = sum over rows of -log softmax(logits_r)[target_r] = log(sum_v exp(logits_rv)) - logits_r,target; its gradient with
/// respect to the logits is softmax(logits_r) - onehot(target_r). Rows with a negative target count nothing. logits [R, V].
inline CrossEntropy cross_entropy(Input logits, std::span<const std::int32_t> targets, Count vocabulary, double scale) {
  CrossEntropy result{0.0, Array(logits.size(), 0.0)};
  for (Count r = 0; r < static_cast<Count>(targets.size()); ++r) {
    if (targets[r] < 0) continue;
    const Input row = logits.subspan(r * vocabulary, vocabulary);
    const double largest = *std::max_element(row.begin(), row.end());  // taken off, so that exp cannot overflow
    double denominator = 0.0;
    for (const double logit : row) denominator += std::exp(logit - largest);
    result.loss += largest + std::log(denominator) - row[targets[r]];
    for (Count v = 0; v < vocabulary; ++v) {
      const double onehot = v == targets[r] ? 1.0 : 0.0;
      result.dlogits[r * vocabulary + v] = scale * (std::exp(row[v] - largest) / denominator - onehot);
    }
  }
  return result;
}

}  // namespace cohort::ops::reference
