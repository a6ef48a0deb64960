// AdamW, the sum of squares and scaling against their references.
#include "ops/adamw.hpp"

#include <gtest/gtest.h>

#include "ops/compare.hpp"
#include "ops/reference/adamw.hpp"

namespace cohort::ops {
namespace {

// Both take the same fp32 settings: 0.999f is not 0.999.
reference::AdamWSettings settings_of(const AdamWStep& step) {
  return {step.learning_rate, step.beta1, step.beta2, step.epsilon, step.weight_decay, step.gradient_scale, step.step};
}

struct Tensors {
  explicit Tensors(Count elements)
      : weight(tensor_of(random_values(elements, 1), {elements})), m(filled({elements}, 0.0f)), v(filled({elements}, 0.0f)) {}
  reference::AdamWState state() const { return {values_of(weight), values_of(m), values_of(v)}; }
  std::vector<Tensor> all() const { return {weight, m, v}; }
  Tensor weight, m, v;
};

void check_step(const Tensors& tensors, Input gradient, const AdamWStep& step) {
  SCOPED_TRACE(fmt::format("step {}", step.step));
  const reference::AdamWState before = tensors.state();
  reference::AdamWState expected = before;
  reference::adamw(expected, gradient, settings_of(step));
  adamw(Exec{}, tensors.weight, tensors.m, tensors.v, tensor_of(gradient, {static_cast<Count>(gradient.size())}), step);
  Array m_tolerance, v_tolerance, weight_tolerance;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double g = step.gradient_scale * gradient[i];
    // Few operations each, relative to the terms that are added up: those of m may cancel. The change of the weight inherits the
    // error of m, relative to m; the weight is rounded once more.
    const double m_terms = std::abs(step.beta1 * before.m[i]) + std::abs((1.0 - step.beta1) * g);
    const double correction1 = 1.0 - std::pow(static_cast<double>(step.beta1), static_cast<double>(step.step));
    const double correction2 = 1.0 - std::pow(static_cast<double>(step.beta2), static_cast<double>(step.step));
    const double change = m_terms / correction1 / (std::sqrt(expected.v[i] / correction2) + step.epsilon);
    m_tolerance.push_back(4.0 * kEps * m_terms);
    v_tolerance.push_back(4.0 * kEps * expected.v[i]);
    weight_tolerance.push_back(16.0 * kEps * step.learning_rate * (change + step.weight_decay * std::abs(before.weight[i])) +
                               kEps * std::abs(expected.weight[i]));
  }
  EXPECT_TRUE(close(tensors.m, expected.m, m_tolerance));
  EXPECT_TRUE(close(tensors.v, expected.v, v_tolerance));
  EXPECT_TRUE(close(tensors.weight, expected.weight, weight_tolerance));
}

TEST(AdamW, MatchesTheReferenceOverSteps) {
  for (const Count elements : {1, 3, 17, 64, 65, 1000}) {
    for (const float weight_decay : {0.0f, 0.1f}) {
      SCOPED_TRACE(fmt::format("{} elements, decay {}", elements, weight_decay));
      const Tensors tensors(elements);
      for (Count step = 1; step <= 5; ++step) {
        check_step(tensors, random_values(elements, static_cast<std::uint32_t>(step)),
                   {0.01f, 0.9f, 0.999f, 1e-8f, weight_decay, 0.5f, step});
      }
    }
  }
}

// 1 - beta^step runs from 1e-3, where a rounded power would show, to 1.
TEST(AdamW, BiasCorrectionAtAnyStep) {
  for (const Count step : {1, 2, 10, 1000, 1'000'000}) {
    const Tensors tensors(65);
    check_step(tensors, random_values(65, 9), {0.1f, 0.9f, 0.999f, 1e-8f, 0.1f, 1.0f, step});
    check_step(tensors, random_values(65, 8), {0.1f, 0.9f, 0.95f, 1e-5f, 0.0f, 1.0f, step + 1});
  }
}

TEST(AdamW, ZeroAndTinyGradients) {
  const Tensors tensors(4);
  // A gradient whose square is below the smallest fp32 must still give something finite.
  check_step(tensors, Array{0.0, 1e-12, -1e-12, 1e-3}, {0.1f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, 1});
  const Tensors tiny(1);
  adamw(Exec{}, tiny.weight, tiny.m, tiny.v, tensor_of(Array{1e-30}, {1}), {0.1f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, 1});
  EXPECT_TRUE(std::isfinite(tiny.weight.f32()[0]));
}

TEST(AdamW, LeavesTheGradientAndRepeats) {
  const Array gradient = random_values(130, 2);
  const Tensor tensor = tensor_of(gradient, {130});
  EXPECT_TRUE(repeats([&] {
    const Tensors tensors(130);
    adamw(Exec{}, tensors.weight, tensors.m, tensors.v, tensor, {0.01f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.5f, 1});
    return tensors.all();
  }));
  EXPECT_TRUE(same_bits(tensor, tensor_of(gradient, {130})));
}

TEST(AdamW, TheComparisonRejectsOtherRules) {
  const Count n = 65;
  const AdamWStep step{0.1f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.5f, 3};
  const Array gradient = random_values(n, 2);
  const Tensors tensors(n);
  const reference::AdamWState before = tensors.state();
  adamw(Exec{}, tensors.weight, tensors.m, tensors.v, tensor_of(gradient, {n}), step);
  const auto differs = [&](auto change) {
    reference::AdamWState state = before;
    reference::AdamWSettings settings = settings_of(step);
    Array g(gradient);
    change(settings, g, state);
    reference::adamw(state, g, settings);
    return !close(tensors.weight, state.weight, 1e-5);  // far above the errors of fp32 at a learning rate of 0.1
  };
  EXPECT_FALSE(differs([](auto&, auto&, auto&) {}));
  EXPECT_TRUE(differs([](auto& settings, auto&, auto&) { settings.step = 4; }));
  EXPECT_TRUE(differs([](auto& settings, auto&, auto&) { settings.step = 1'000'000; }));  // no bias correction
  EXPECT_TRUE(differs([](auto& settings, auto&, auto&) { settings.weight_decay = 0.0; }));
  EXPECT_TRUE(differs([](auto& settings, auto& g, auto& state) {  // decay through the gradient: Adam with L2, not AdamW
    for (std::size_t i = 0; i < g.size(); ++i) g[i] += settings.weight_decay * state.weight[i] / settings.gradient_scale;
    settings.weight_decay = 0.0;
  }));
}

TEST(SumOfSquares, IsDouble) {
  for (const Count elements : {1, 3, 17, 1000, 100'003}) {
    const Array x = random_values(elements, 1);
    const Tensor tensor = tensor_of(x, {elements});
    const double expected = reference::sum_of_squares(x);
    // Squares of fp32 numbers are exact in double; the sum errs by at most n 2^-53.
    EXPECT_NEAR(sum_of_squares(Exec{}, tensor), expected, expected * static_cast<double>(elements) * 0x1p-53);
    EXPECT_EQ(sum_of_squares(Exec{}, tensor), sum_of_squares(Exec{}, tensor));
  }
  EXPECT_EQ(sum_of_squares(Exec{}, filled({0}, 0.0f)), 0.0);
  EXPECT_NEAR(sum_of_squares(Exec{}, tensor_of(Array{1e30, 1e30}, {2})), 2e60, 1e54);  // beyond fp32
  EXPECT_TRUE(std::isnan(sum_of_squares(Exec{}, tensor_of(Array{1.0, kGarbage}, {2}))));
}

TEST(Scale, MultipliesEachElement) {
  for (const Count elements : {0, 1, 17, 1000}) {
    const Array x = random_values(elements, 1);
    const Tensor tensor = tensor_of(x, {elements});
    scale(Exec{}, tensor, -0.3f);
    for (Count i = 0; i < elements; ++i) EXPECT_EQ(tensor.f32()[i], static_cast<float>(x[i]) * -0.3f);
  }
}

}  // namespace
}  // namespace cohort::ops
