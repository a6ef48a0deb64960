// AdamW, and the gradient's norm and what it decides, against their references.
#include "ops/adamw.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "ops/compare.hpp"
#include "ops/reference/adamw.hpp"

namespace cohort::ops {
namespace {

// All that one step of AdamW over one range depends on beside the tensors.
struct Settings {
  float learning_rate, beta1, beta2, epsilon, weight_decay, gradient_scale;
  Count step;  // 1 is the first

  AdamWStep as_step() const { return {learning_rate, beta1, beta2, epsilon, step}; }
  // In double precision, but of the same fp32 numbers: 0.999f is not 0.999.
  reference::AdamWSettings as_reference() const {
    return {learning_rate, beta1, beta2, epsilon, weight_decay, gradient_scale, step};
  }
};

struct Tensors {
  explicit Tensors(Count elements, DType compute_type = DType::f32)
      : weight(tensor_of(random_values(elements, 1), {elements})),
        compute(compute_type == DType::f32 ? weight : tensor_of_type(compute_type, Array(elements, 0.0), {elements})),
        m(filled({elements}, 0.0f)),
        v(filled({elements}, 0.0f)) {}
  reference::AdamWState state() const { return {values_of(weight), values_of(m), values_of(v)}; }
  std::vector<Tensor> all() const { return {weight, compute, m, v}; }
  Tensor weight, compute, m, v;
};

void run(const Tensors& tensors, const Tensor& gradient, const AdamWStep& step, const std::vector<AdamWRange>& ranges,
         const OptimizerScalars& scalars) {
  adamw(test_exec(), {tensors.weight, tensors.compute, tensors.m, tensors.v, gradient}, bytes_of(ranges), step,
        bytes_of<OptimizerScalars>({scalars}));
}

// Over all elements as one range.
void run(const Tensors& tensors, const Tensor& gradient, const Settings& settings) {
  run(tensors, gradient, settings.as_step(), {{0, gradient.elements(), settings.weight_decay}},
      {.gradient_scale = settings.gradient_scale});
}

void check_step(const Tensors& tensors, Input gradient, const Settings& step) {
  SCOPED_TRACE(fmt::format("step {}", step.step));
  const reference::AdamWState before = tensors.state();
  reference::AdamWState expected = before;
  reference::adamw(expected, gradient, step.as_reference());
  run(tensors, tensor_of(gradient, {static_cast<Count>(gradient.size())}), step);
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
  run(tiny, tensor_of(Array{1e-30}, {1}), {0.1f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, 1});
  EXPECT_TRUE(std::isfinite(values_of(tiny.weight)[0]));
}

TEST(AdamW, LeavesTheGradientAndRepeats) {
  const Array gradient = random_values(130, 2);
  const Tensor tensor = tensor_of(gradient, {130});
  EXPECT_TRUE(repeats([&] {
    const Tensors tensors(130);
    run(tensors, tensor, {0.01f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.5f, 1});
    return tensors.all();
  }));
  EXPECT_TRUE(same_bits(tensor, tensor_of(gradient, {130})));
}

TEST(AdamW, TheComparisonRejectsOtherRules) {
  const Count n = 65;
  const Settings step{0.1f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.5f, 3};
  const Array gradient = random_values(n, 2);
  const Tensors tensors(n);
  const reference::AdamWState before = tensors.state();
  run(tensors, tensor_of(gradient, {n}), step);
  const auto differs = [&](auto change) {
    reference::AdamWState state = before;
    reference::AdamWSettings settings = step.as_reference();
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

// Each element decays as its range says, and belongs to one range alone; what no range covers stays as it is.
TEST(AdamW, RangesHaveTheirOwnDecay) {
  const Count n = 10'000;
  const std::vector<AdamWRange> ranges{{0, 3, 0.5f}, {3, 4100, 0.0f}, {4100, 4101, 0.25f}, {4200, n, 0.1f}};
  const Settings step{0.1f, 0.9f, 0.999f, 1e-8f, 0.0f, 0.5f, 2};
  const Array gradient = random_values(n, 2);
  const Tensors together(n);
  const Array before = values_of(together.weight);
  run(together, tensor_of(gradient, {n}), step.as_step(), ranges, {.gradient_scale = step.gradient_scale});
  const Array weight = values_of(together.weight);
  std::set<Count> covered;
  for (const AdamWRange& range : ranges) {
    const Tensors alone(n);
    Settings settings = step;
    settings.weight_decay = range.weight_decay;
    run(alone, tensor_of(gradient, {n}), settings);
    const Array expected = values_of(alone.weight);
    for (Count i = range.begin; i < range.end; ++i) {
      ASSERT_EQ(weight[i], expected[i]) << i;
      covered.insert(i);
    }
  }
  for (Count i = 0; i < n; ++i) {
    if (covered.contains(i)) continue;
    ASSERT_EQ(weight[i], before[i]) << i;
  }
}

TEST(AdamW, ASkippedStepChangesNothing) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensors tensors(130, type), untouched(130, type);
    const Array gradient(130, kGarbage);
    run(tensors, tensor_of(gradient, {130}), {0.01f, 0.9f, 0.999f, 1e-8f, 1}, {{0, 130, 0.1f}},
        {.gradient_scale = kGarbage, .skip = 1});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(tensors.all()[i], untouched.all()[i])) << i;
  }
}

// The fp32 weights move as without a copy; the copy is those weights, rounded once.
TEST(AdamW, WritesThe16BitCopy) {
  const Array gradient = random_values(1000, 2);
  const Settings step{0.1f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.5f, 1};
  const Tensors without(1000);
  run(without, tensor_of(gradient, {1000}), step);
  for (const DType type : {DType::bf16, DType::f16}) {
    const Tensors with(1000, type);
    run(with, tensor_of(gradient, {1000}), step);
    EXPECT_TRUE(same_bits(with.weight, without.weight)) << name_of(type);
    EXPECT_TRUE(same_bits(with.compute, tensor_of_type(type, values_of(with.weight), {1000}))) << name_of(type);
  }
}

double squares_of(const Tensor& x) {
  const Tensor sum = number_tensor(0.0);
  sum_of_squares(test_exec(), sum, x);
  return number_of(sum);
}

TEST(SumOfSquares, IsDouble) {
  for (const Count elements : {1, 3, 17, 1000, 100'003}) {
    const Array x = random_values(elements, 1);
    const Tensor tensor = tensor_of(x, {elements});
    const double expected = reference::sum_of_squares(x);
    // Squares of fp32 numbers are exact in double; the sum errs by at most n 2^-53.
    EXPECT_NEAR(squares_of(tensor), expected, expected * static_cast<double>(elements) * 0x1p-53);
    EXPECT_EQ(squares_of(tensor), squares_of(tensor));
  }
  EXPECT_EQ(squares_of(filled({0}, 0.0f)), 0.0);
  EXPECT_NEAR(squares_of(tensor_of(Array{1e30, 1e30}, {2})), 2e60, 1e54);  // beyond fp32
  EXPECT_TRUE(std::isnan(squares_of(tensor_of(Array{1.0, kGarbage}, {2}))));
}

TEST(SumOfSquares, IsAddedToWhatIsThere) {
  const Tensor sum = number_tensor(0.5);
  sum_of_squares(test_exec(), sum, tensor_of(Array{3.0}, {1}));
  sum_of_squares(test_exec(), sum, tensor_of(Array{4.0}, {1}));
  EXPECT_EQ(number_of(sum), 25.5);
}

struct Decided {
  double norm;
  OptimizerScalars scalars;
};

Decided decide(double squares, double loss, double loss_scale, double clip_norm) {
  const Tensor norm = number_tensor(kGarbage), scalars = bytes_of<OptimizerScalars>({{.gradient_scale = kGarbage, .skip = 7}});
  finish_gradient_norm(test_exec(), norm, scalars, number_tensor(squares), number_tensor(loss), loss_scale, clip_norm);
  return {number_of(norm), structs_of<OptimizerScalars>(scalars).front()};
}

TEST(GradientNorm, ClipsWhatIsLonger) {
  struct Case {
    double norm, clip_norm, factor;
  };
  const Case cases[] = {{4.0, 1.0, 0.25}, {4.0, 3.0, 0.75}, {0.5, 1.0, 1.0},
                        {1.0, 1.0, 1.0},  {0.0, 1.0, 1.0},  {1e9, 0.0, 1.0}};  // 0 is off
  for (const auto& [norm, clip_norm, factor] : cases) {
    SCOPED_TRACE(fmt::format("norm {}, at most {}", norm, clip_norm));
    for (const double loss_scale : {1.0, 1024.0}) {
      const Decided decided = decide(norm * norm * loss_scale * loss_scale, 3.0, loss_scale, clip_norm);
      EXPECT_EQ(decided.norm, norm);
      EXPECT_EQ(decided.scalars.gradient_scale, static_cast<float>(factor / loss_scale));
      EXPECT_EQ(decided.scalars.skip, 0);
    }
  }
}

TEST(GradientNorm, SkipsUnlessNormAndLossAreFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {kInfinity, kNan}) {
    EXPECT_NE(decide(bad, 3.0, 1.0, 1.0).scalars.skip, 0) << bad;
    EXPECT_NE(decide(4.0, bad, 1.0, 1.0).scalars.skip, 0) << bad;
    EXPECT_NE(decide(4.0, -bad, 1.0, 0.0).scalars.skip, 0) << bad;
    EXPECT_FALSE(std::isfinite(decide(bad, 3.0, 1.0, 1.0).norm)) << bad;
  }
  EXPECT_EQ(decide(1e300, -1e300, 1.0, 1.0).scalars.skip, 0) << "large is not infinite";
}

}  // namespace
}  // namespace cohort::ops
