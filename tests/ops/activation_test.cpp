// GELU, ReLU and SwiGLU against their references.
#include "ops/activation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/compare.hpp"
#include "ops/finite_difference.hpp"
#include "ops/reference/activation.hpp"

namespace cohort::ops {
namespace {

// The activations that add a bias first.
struct Kind {
  const char* name;
  void (*forward)(const Exec&, const Tensor&, const Tensor&, const Tensor&);
  void (*backward)(const Exec&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  double (*function)(double);
  double (*slope)(double);
};
const Kind kKinds[] = {{"gelu", gelu_forward, gelu_backward, reference::gelu, reference::gelu_slope},
                       {"relu", relu_forward, relu_backward, reference::relu, reference::relu_slope}};

// The largest error of a handful of operations and one exponential.
constexpr double kFewOps = 12.0 * kEps;

struct Problem {
  Problem(Count rows_, Count width_, double scale) : rows(rows_), width(width_) {
    x = random_values(rows * width, 1, scale);
    bias = random_values(width, 2);
    dout = random_values(rows * width, 3);
    dbias_before = random_values(width, 4);
  }
  // |z| + |x| + |bias|: what the error of z = x + bias, and of a function of size |z|, are relative to.
  double size(Count i) const { return std::abs(x[i] + bias[i % width]) + std::abs(x[i]) + std::abs(bias[i % width]); }
  Array out_tolerance() const {
    Array tolerance;
    for (Count i = 0; i < rows * width; ++i) tolerance.push_back(kFewOps * size(i));
    return tolerance;
  }
  // The slope is made of terms of size 1 and, for GELU, z (1 - tanh^2) u': the cancellation in 1 - tanh^2 leaves an error of
  // kEps, times |z u'| with u' = 0.8 (1 + 0.134 z^2).
  double slope_error(Count i) const {
    const double z = x[i] + bias[i % width];
    return kFewOps * (1.0 + size(i) * (1.0 + 0.134 * z * z));
  }
  Array dx_tolerance() const {
    Array tolerance;
    for (Count i = 0; i < rows * width; ++i) tolerance.push_back(std::abs(dout[i]) * slope_error(i));
    return tolerance;
  }
  Array dbias_tolerance() const {
    Array tolerance(width, 0.0);
    for (Count f = 0; f < width; ++f) tolerance[f] = sum_error(rows) * std::abs(dbias_before[f]);
    for (Count i = 0; i < rows * width; ++i) tolerance[i % width] += std::abs(dout[i]) * (slope_error(i) + 1.2 * sum_error(rows));
    return tolerance;  // 1.2: the largest slope
  }

  Count rows, width;
  Array x, bias, dout, dbias_before;
};

Tensor run_forward(const Kind& kind, const Problem& p, Input x) {
  const Tensor out = filled({p.rows, p.width}, kGarbage);
  kind.forward(test_exec(), out, tensor_of(x, {p.rows, p.width}), tensor_of(p.bias, {p.width}));
  return out;
}

// {dx, dbias}; in_place: dx is dout's memory.
std::vector<Tensor> run_backward(const Kind& kind, const Problem& p, bool in_place) {
  const Tensor dout = tensor_of(p.dout, {p.rows, p.width}), dbias = tensor_of(p.dbias_before, {p.width});
  const Tensor dx = in_place ? dout : filled({p.rows, p.width}, kGarbage);
  kind.backward(test_exec(), dx, dbias, dout, tensor_of(p.x, {p.rows, p.width}), tensor_of(p.bias, {p.width}));
  return {dx, dbias};
}

TEST(Activation, MatchesTheReference) {
  for (const Kind& kind : kKinds) {
    for (const Count rows : {1, 2, 7, 33}) {
      for (const Count width : {1, 3, 17, 65, 130}) {
        for (const double scale : {1.0, 5.0}) {
          SCOPED_TRACE(fmt::format("{} [{}, {}] scale {}", kind.name, rows, width, scale));
          const Problem p(rows, width, scale);
          EXPECT_TRUE(close(run_forward(kind, p, p.x), reference::activation_forward(p.x, p.bias, rows, width, kind.function),
                            p.out_tolerance()));
          const auto expected = reference::activation_backward(p.dout, p.x, p.bias, rows, width, kind.slope);
          const std::vector<Tensor> backward = run_backward(kind, p, false);
          EXPECT_TRUE(close(backward[0], expected.dx, p.dx_tolerance()));
          EXPECT_TRUE(close(backward[1], sum(p.dbias_before, expected.dbias), p.dbias_tolerance()));
          EXPECT_TRUE(same_bits(run_backward(kind, p, true)[0], backward[0]));
          EXPECT_TRUE(same_bits(run_backward(kind, p, true)[1], backward[1]));
        }
      }
    }
  }
}

TEST(Activation, FarFromZero) {
  const Array x{-1e4, -100.0, -30.0, 30.0, 100.0, 1e4}, zeros(6, 0.0), ones(6, 1.0);
  for (const Kind& kind : kKinds) {
    const Tensor out = filled({1, 6}, kGarbage), dx = filled({1, 6}, kGarbage), dbias = filled({6}, 0.0f);
    const Tensor tx = tensor_of(x, {1, 6}), bias = tensor_of(zeros, {6});
    kind.forward(test_exec(), out, tx, bias);
    kind.backward(test_exec(), dx, dbias, tensor_of(ones, {1, 6}), tx, bias);
    const Array outs = values_of(out), slopes = values_of(dx);
    for (Count i = 0; i < 6; ++i) {
      // Both are 0 on the left and the identity on the right, up to one rounding of a number of that size. An exp that stops at
      // the smallest fp32, 1e-38, leaves that instead of 0: times |z| in the value, times |z u'| = 1e11 in the slope of GELU.
      EXPECT_NEAR(outs[i], std::max(0.0, x[i]), 1e-30 + kEps * std::max(0.0, x[i])) << kind.name << " " << x[i];
      EXPECT_NEAR(slopes[i], x[i] > 0.0 ? 1.0 : 0.0, x[i] > 0.0 ? kEps : 1e-26) << kind.name << " " << x[i];
    }
  }
}

// A non-linearity must not hide what went wrong before it.
TEST(Activation, NotANumberShows) {
  const Array x{1.0, kGarbage, -1.0}, zeros(3, 0.0);
  for (const Kind& kind : kKinds) {
    const Tensor out = filled({1, 3}, 0.0f);
    kind.forward(test_exec(), out, tensor_of(x, {1, 3}), tensor_of(zeros, {3}));
    const Array values = values_of(out);
    EXPECT_TRUE(std::isfinite(values[0]) && std::isnan(values[1]) && std::isfinite(values[2])) << kind.name;
  }
}

TEST(Activation, GradientIsTheSlopeOfTheOp) {
  const Problem p(5, 65, 1.0);
  const Kind& gelu = kKinds[0];  // relu has a kink, which differences straddle
  const auto loss = [&](Input x) { return dot(p.dout, values_of(run_forward(gelu, p, x))); };
  EXPECT_TRUE(moves_along(values_of(run_backward(gelu, p, false)[0]), p.x, loss));
  EXPECT_FALSE(moves_along(p.dout, p.x, loss));
}

Tensor run_swiglu(Count rows, Count width, Input x) {
  const Tensor out = filled({rows, width}, kGarbage);
  swiglu_forward(test_exec(), out, tensor_of(x, {rows, 2 * width}));
  return out;
}

Tensor run_swiglu_backward(Count rows, Count width, Input dout, Input x) {
  const Tensor dx = filled({rows, 2 * width}, kGarbage);
  swiglu_backward(test_exec(), dx, tensor_of(dout, {rows, width}), tensor_of(x, {rows, 2 * width}));
  return dx;
}

// The error is relative to the products |gate up| and |dout up|, |dout gate|: silu(z) <= |z| and its slope is at most 1.1.
Array swiglu_tolerance(Input x, Count rows, Count width) {
  Array tolerance;
  for (Count i = 0; i < rows * width; ++i) {
    const Count gate = i / width * 2 * width + i % width;
    tolerance.push_back(kFewOps * std::abs(x[gate] * x[gate + width]));
  }
  return tolerance;
}
Array swiglu_backward_tolerance(Input dout, Input x, Count rows, Count width) {
  Array tolerance(2 * rows * width);
  for (Count i = 0; i < rows * width; ++i) {
    const Count gate = i / width * 2 * width + i % width;
    tolerance[gate] = kFewOps * std::abs(dout[i] * x[gate + width]) * (1.0 + std::abs(x[gate]));
    tolerance[gate + width] = kFewOps * std::abs(dout[i] * x[gate]);
  }
  return tolerance;
}

TEST(SwiGlu, MatchesTheReference) {
  for (const Count rows : {1, 2, 7, 33}) {
    for (const Count width : {1, 3, 17, 65, 130}) {
      for (const double scale : {1.0, 10.0}) {
        SCOPED_TRACE(fmt::format("[{}, {}] scale {}", rows, width, scale));
        const Array x = random_values(rows * 2 * width, 1, scale), dout = random_values(rows * width, 2);
        EXPECT_TRUE(
            close(run_swiglu(rows, width, x), reference::swiglu_forward(x, rows, width), swiglu_tolerance(x, rows, width)));
        EXPECT_TRUE(close(run_swiglu_backward(rows, width, dout, x), reference::swiglu_backward(dout, x, rows, width),
                          swiglu_backward_tolerance(dout, x, rows, width)));
      }
    }
  }
}

TEST(SwiGlu, FarFromZero) {
  const Array gates{-1e4, -100.0, -80.0, 80.0, 100.0, 1e4};
  for (const double gate : gates) {
    const Array x{gate, 2.0};
    const double expected = 2.0 * std::max(0.0, gate);
    EXPECT_NEAR(values_of(run_swiglu(1, 1, x))[0], expected, 1e-30 + kEps * expected) << gate;
    const Array dx = values_of(run_swiglu_backward(1, 1, Array{1.0}, x));
    EXPECT_NEAR(dx[0], gate > 0.0 ? 2.0 : 0.0, gate > 0.0 ? 2.0 * kEps : 1e-30) << gate;
    EXPECT_NEAR(dx[1], expected / 2.0, 1e-30 + kEps * expected) << gate;
  }
}

TEST(SwiGlu, NotANumberShows) {
  EXPECT_TRUE(std::isnan(values_of(run_swiglu(1, 1, Array{kGarbage, 2.0}))[0]));
  EXPECT_TRUE(std::isnan(values_of(run_swiglu(1, 1, Array{2.0, kGarbage}))[0]));
}

TEST(SwiGlu, GradientIsTheSlopeOfTheOp) {
  const Array x = random_values(5 * 2 * 33, 1), dout = random_values(5 * 33, 2);
  const auto loss = [&](Input v) { return dot(dout, values_of(run_swiglu(5, 33, v))); };
  EXPECT_TRUE(moves_along(values_of(run_swiglu_backward(5, 33, dout, x)), x, loss));
}

TEST(Activation, SameBitsEachTime) {
  const Problem p(33, 130, 1.0);
  for (const Kind& kind : kKinds) {
    EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run_forward(kind, p, p.x)}; }));
    EXPECT_TRUE(repeats([&] { return run_backward(kind, p, false); }));
  }
  const Array dout = random_values(33 * 65, 5);
  EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run_swiglu(33, 65, p.x)}; }));
  EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run_swiglu_backward(33, 65, dout, p.x)}; }));
}

TEST(Activation, TheComparisonRejectsWrongActivations) {
  const Problem p(7, 17, 1.0);
  const Tensor out = run_forward(kKinds[0], p, p.x);
  const std::vector<Tensor> backward = run_backward(kKinds[0], p, false);
  const auto exact_gelu = [](double z) { return 0.5 * z * std::erfc(-z / std::sqrt(2.0)); };  // the other GELU, 4e-4 away at most
  EXPECT_FALSE(close(out, reference::activation_forward(p.x, p.bias, 7, 17, exact_gelu), p.out_tolerance()));
  EXPECT_FALSE(
      close(out, reference::activation_forward(p.x, Array(17, 0.0), 7, 17, reference::gelu), p.out_tolerance()));  // no bias
  EXPECT_FALSE(close(backward[1], p.dbias_before, p.dbias_tolerance()));  // no bias gradient
  EXPECT_FALSE(close(backward[1], reference::activation_backward(p.dout, p.x, p.bias, 7, 17, reference::gelu_slope).dbias,
                     p.dbias_tolerance()));  // overwritten instead of added to

  const Array x = random_values(7 * 34, 1);
  Array swapped;  // up before gate
  for (Count r = 0; r < 7; ++r) {
    swapped.insert(swapped.end(), x.begin() + r * 34 + 17, x.begin() + (r + 1) * 34);
    swapped.insert(swapped.end(), x.begin() + r * 34, x.begin() + r * 34 + 17);
  }
  EXPECT_FALSE(close(run_swiglu(7, 17, x), reference::swiglu_forward(swapped, 7, 17), swiglu_tolerance(x, 7, 17)));
}

}  // namespace
}  // namespace cohort::ops
