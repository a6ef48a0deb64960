// Gradients by finite differences, which need nothing but the forward function.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/values.hpp"

namespace cohort::ops {

/// Of a loss in double precision: (loss(x + h e_i) - loss(x - h e_i)) / 2h for each i. With h = 1e-5 the error is about
/// h^2 = 1e-10 from the third derivative and 1e-16 / h = 1e-11 from rounding, times the size of the loss.
inline Array numeric_gradient(Input x, const std::function<double(Input)>& loss) {
  constexpr double kStep = 1e-5;
  Array point(x.begin(), x.end());
  Array gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    point[i] = x[i] + kStep;
    const double above = loss(point);
    point[i] = x[i] - kStep;
    const double below = loss(point);
    point[i] = x[i];
    gradient[i] = (above - below) / (2.0 * kStep);
  }
  return gradient;
}

/// Whether `gradient` is that of `loss` at x, to 1e-6 of its largest element.
inline ::testing::AssertionResult is_gradient(Input gradient, Input x, const std::function<double(Input)>& loss) {
  const Array expected = numeric_gradient(x, loss);
  if (gradient.size() != expected.size()) return ::testing::AssertionFailure() << gradient.size() << " elements for " << x.size();
  double largest = 0.0;
  for (const double element : expected) largest = std::max(largest, std::abs(element));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(gradient[i] - expected[i]) <= 1e-6 * largest)) {
      return ::testing::AssertionFailure() << "element " << i << " is " << gradient[i] << ", by differences " << expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// The same for an fp32 op, along five random directions of +-h in each element: the loss moves by <gradient, direction>. One
/// direction alone may by luck not see a wrong gradient. `loss` rounds x to fp32, so the move that it really made is what is
/// compared. The step is coarse because the op rounds at 1e-7: an error of 1e-7 / h. The tolerance of 1e-2 is relative to what a
/// sum of such terms with random signs comes to.
inline ::testing::AssertionResult moves_along(Input gradient, Input x, const std::function<double(Input)>& loss) {
  constexpr double kStep = 4e-3;
  for (std::uint32_t direction = 0; direction < 5; ++direction) {
    const CounterRandom random(2024, RandomPurpose::test, 2, direction);
    Array above(x.begin(), x.end());
    Array below(x.begin(), x.end());
    double expected = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double move = random.uniform(i) < 0.5 ? kStep : -kStep;
      above[i] = static_cast<double>(static_cast<float>(x[i] + move));
      below[i] = static_cast<double>(static_cast<float>(x[i] - move));
      expected += gradient[i] * (above[i] - below[i]);
      squares += std::pow(gradient[i] * (above[i] - below[i]), 2);
    }
    const double moved = loss(above) - loss(below);
    const double tolerance = 1e-2 * std::sqrt(squares);
    if (!(std::abs(moved - expected) <= tolerance)) {
      return ::testing::AssertionFailure() << "in direction " << direction << " the loss moved by " << moved
                                           << ", the gradient says " << expected << " +- " << tolerance;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace cohort::ops
