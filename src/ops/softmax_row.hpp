// The exponentials of a row of logits, which are needed twice: for their sum, and for the gradient that overwrites the row.
// Between the two they are kept in the logits' place where that is fp32. In 16 bits they would be rounded, so there they are
// computed twice.
#pragma once

#include "ops/fast_math.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {

/// The sum of exp(logit - largest) over the row. fp32 logits are overwritten by what is summed.
template <class T>
KOKKOS_INLINE_FUNCTION float sum_and_keep_exponentials(const Row& row, Count n, T* logits, float largest) {
  if constexpr (std::is_same_v<T, float>) {
    return row.sum(
        n, [=](float& logit) { return logit = fast_exp(logit - largest); }, in_out(logits));
  } else {
    return row.sum(
        n, [=](float logit) { return fast_exp(logit - largest); }, in(logits));
  }
}

/// Of an element of that row, afterwards.
template <class T>
KOKKOS_INLINE_FUNCTION float kept_exponential(float element, float largest) {
  if constexpr (std::is_same_v<T, float>) return element;
  return fast_exp(element - largest);
}

}  // namespace cohort::ops
