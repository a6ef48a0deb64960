// The exponentials of a row of logits, which are needed twice: for their sum, and for the gradient that overwrites the row.
// Between the two they are kept in the logits' place where that is fp32. In 16 bits they would be rounded, so there they are
// computed twice.
#pragma once

#include "base/dtype.hpp"
#include "ops/fast_math.hpp"

namespace cohort::ops {

constexpr float keep_exp(float& logit, float largest) { return logit = fast_exp(logit - largest); }
constexpr float kept_exp(float kept, float) { return kept; }

template <class T>
constexpr float keep_exp(T& logit, float largest) {
  return fast_exp(to_float(logit) - largest);
}
template <class T>
constexpr float kept_exp(T logit, float largest) {
  return fast_exp(to_float(logit) - largest);
}

}  // namespace cohort::ops
