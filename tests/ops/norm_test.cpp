// Layer and RMS normalisation against their references.
#include "ops/norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/compare.hpp"
#include "ops/finite_difference.hpp"
#include "ops/reference/norm.hpp"

namespace cohort::ops {
namespace {

constexpr double kEpsilon = 0x1p-17;  // about 7.6e-6, and the same number in fp32

// One problem: inputs, what the gradients held before, and the reference's answers. `mean` shifts all of x.
struct Problem {
  Problem(Count rows_, Count width_, bool rms_, double mean) : rows(rows_), width(width_), rms(rms_) {
    x = random_values(rows * width, 1, 1.5, mean);
    weight = random_values(width, 2, 0.5, 1.0);
    bias = random_values(width, 3);
    dout = random_values(rows * width, 4);
    dx_before = random_values(rows * width, 5);
    dweight_before = random_values(width, 6);
    dbias_before = random_values(width, 7);
    forward = rms ? reference::rmsnorm_forward(x, weight, rows, width, kEpsilon)
                  : reference::layernorm_forward(x, weight, bias, rows, width, kEpsilon);
    backward = rms ? reference::rmsnorm_backward(dout, x, weight, rows, width, kEpsilon)
                   : reference::layernorm_backward(dout, x, weight, rows, width, kEpsilon);
  }

  double mean(Count r) const { return rms ? 0.0 : forward.mean[r]; }
  double xhat(Count r, Count c) const { return (x[r * width + c] - mean(r)) * forward.rstd[r]; }
  // Bounds the error of xhat: the mean is known to sum_error(C) of its size, and so are rstd and the difference.
  double xhat_error(Count r, Count c) const {
    return sum_error(width) * (std::abs(mean(r)) * forward.rstd[r] + std::abs(xhat(r, c)));
  }
  // The error of out = xhat * weight + bias.
  Array out_tolerance() const {
    Array tolerance;
    for (Count r = 0; r < rows; ++r) {
      for (Count c = 0; c < width; ++c) {
        tolerance.push_back(xhat_error(r, c) * std::abs(weight[c]) +
                            2.0 * kEps * (std::abs(bias[c]) + std::abs(xhat(r, c) * weight[c])));
      }
    }
    return tolerance;
  }
  // The error of dx = rstd (g - mean(g) - xhat mean(g xhat)), whose terms are at most G = max |g| (1 + |xhat| max |xhat|).
  Array dx_tolerance() const {
    Array tolerance;
    for (Count r = 0; r < rows; ++r) {
      double g = 0.0, largest = 0.0, error = 0.0;
      for (Count c = 0; c < width; ++c) {
        g = std::max(g, std::abs(dout[r * width + c] * weight[c]));
        largest = std::max(largest, std::abs(xhat(r, c)));
        error = std::max(error, xhat_error(r, c));
      }
      for (Count c = 0; c < width; ++c) {
        const double terms = sum_error(width) * (1.0 + std::abs(xhat(r, c)) * largest) + 2.0 * error * largest;
        tolerance.push_back(forward.rstd[r] * g * terms + kEps * std::abs(dx_before[r * width + c]));
      }
    }
    return tolerance;
  }
  // The error of sums over rows of dout xhat (dweight), or of dout (dbias), added to what was there.
  Array dweight_tolerance() const {
    Array tolerance(width, 0.0);
    for (Count c = 0; c < width; ++c) {
      tolerance[c] = sum_error(rows) * std::abs(dweight_before[c]);
      for (Count r = 0; r < rows; ++r) {
        tolerance[c] += std::abs(dout[r * width + c]) * (sum_error(rows) * std::abs(xhat(r, c)) + xhat_error(r, c));
      }
    }
    return tolerance;
  }
  Array dbias_tolerance() const {
    Array tolerance(width, 0.0);
    for (Count c = 0; c < width; ++c) {
      tolerance[c] = sum_error(rows) * std::abs(dbias_before[c]);
      for (Count r = 0; r < rows; ++r) tolerance[c] += sum_error(rows) * std::abs(dout[r * width + c]);
    }
    return tolerance;
  }

  Count rows, width;
  bool rms;
  Array x, weight, bias, dout, dx_before, dweight_before, dbias_before;
  reference::NormForward forward;
  reference::NormBackward backward;
};

// {out, rstd, mean}; RMS has no mean.
std::vector<Tensor> run_forward(const Problem& p, Input x) {
  const Tensor out = filled({p.rows, p.width}, kGarbage), mean = filled({p.rows}, kGarbage), rstd = filled({p.rows}, kGarbage);
  const Tensor tx = tensor_of(x, {p.rows, p.width}), weight = tensor_of(p.weight, {p.width}), bias = tensor_of(p.bias, {p.width});
  if (p.rms) {
    rmsnorm_forward(test_exec(), out, rstd, tx, weight, static_cast<float>(kEpsilon));
    return {out, rstd};
  }
  layernorm_forward(test_exec(), out, mean, rstd, tx, weight, bias, static_cast<float>(kEpsilon));
  return {out, rstd, mean};
}

// {dx, dweight, dbias}, from the reference's mean and rstd, so that it does not depend on the forward op.
std::vector<Tensor> run_backward(const Problem& p) {
  const Tensor dx = tensor_of(p.dx_before, {p.rows, p.width});
  const Tensor dweight = tensor_of(p.dweight_before, {p.width}), dbias = tensor_of(p.dbias_before, {p.width});
  const Tensor dout = tensor_of(p.dout, {p.rows, p.width}), x = tensor_of(p.x, {p.rows, p.width}),
               weight = tensor_of(p.weight, {p.width});
  const Tensor rstd = tensor_of(p.forward.rstd, {p.rows});
  if (p.rms) {
    rmsnorm_backward(test_exec(), dx, dweight, dout, x, weight, rstd);
    return {dx, dweight};
  }
  layernorm_backward(test_exec(), dx, dweight, dbias, dout, x, weight, tensor_of(p.forward.mean, {p.rows}), rstd);
  return {dx, dweight, dbias};
}

void check(const Problem& p) {
  SCOPED_TRACE(fmt::format("{} [{}, {}], x[0] {}", p.rms ? "rms" : "layer", p.rows, p.width, p.x[0]));
  const std::vector<Tensor> forward = run_forward(p, p.x);
  EXPECT_TRUE(close(forward[0], p.forward.out, p.out_tolerance()));
  Array tolerance;
  // rstd depends on the error of the mean only in second order; the term for it covers rows whose deviation is small.
  for (Count r = 0; r < p.rows; ++r) {
    tolerance.push_back(p.forward.rstd[r] *
                        (sum_error(p.width) + std::pow(sum_error(p.width) * p.mean(r) * p.forward.rstd[r], 2)));
  }
  EXPECT_TRUE(close(forward[1], p.forward.rstd, tolerance));
  if (!p.rms) {
    for (Count r = 0; r < p.rows; ++r) tolerance[r] = sum_error(p.width) * (1.5 + std::abs(p.mean(r)));  // 1.5: the spread of x
    EXPECT_TRUE(close(forward[2], p.forward.mean, tolerance));
  }

  const std::vector<Tensor> backward = run_backward(p);
  EXPECT_TRUE(close(backward[0], sum(p.dx_before, p.backward.dx), p.dx_tolerance()));
  EXPECT_TRUE(close(backward[1], sum(p.dweight_before, p.backward.dweight), p.dweight_tolerance()));
  if (!p.rms) {
    EXPECT_TRUE(close(backward[2], sum(p.dbias_before, p.backward.dbias), p.dbias_tolerance()));
  }
}

TEST(Norm, MatchesTheReference) {
  for (const bool rms : {false, true}) {
    for (const Count rows : {1, 2, 7, 33}) {
      for (const Count width : {1, 3, 17, 64, 65, 130, 768}) check(Problem(rows, width, rms, 0.3));
    }
    check(Problem(257, 130, rms, 0.3));
  }
}

// The variance as mean(x^2) - mean(x)^2 would lose all its digits here.
TEST(Norm, LargeMean) {
  for (const double mean : {100.0, -3000.0}) {
    for (const Count width : {3, 65, 768}) {
      check(Problem(5, width, false, mean));
      check(Problem(5, width, true, mean));
    }
  }
}

TEST(Norm, ConstantAndZeroRows) {
  for (const bool rms : {false, true}) {
    Problem p(3, 17, rms, 0.0);
    for (const double value : {0.0, 0.1, 1e4}) {
      const std::vector<Tensor> out = run_forward(p, Array(3 * 17, value));
      const reference::NormForward expected =
          rms ? reference::rmsnorm_forward(Array(51, value), p.weight, 3, 17, kEpsilon)
              : reference::layernorm_forward(Array(51, value), p.weight, p.bias, 3, 17, kEpsilon);
      // rstd is up to 1 / sqrt(epsilon) = 360: it magnifies what the mean is off by.
      const double tolerance = sum_error(17) * 3.0 * (1.0 + (rms ? 0.0 : value / std::sqrt(kEpsilon)));
      EXPECT_TRUE(close(out[0], expected.out, tolerance)) << (rms ? "rms " : "layer ") << value;
    }
  }
}

TEST(Norm, GradientIsTheSlopeOfTheOp) {
  for (const bool rms : {false, true}) {
    const Problem p(5, 65, rms, 0.3);
    const auto loss = [&](Input x) { return dot(p.dout, values_of(run_forward(p, x)[0])); };
    Array gradient = values_of(run_backward(p)[0]);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] -= p.dx_before[i];
    EXPECT_TRUE(moves_along(gradient, p.x, loss));
    EXPECT_FALSE(moves_along(p.dout, p.x, loss));
  }
}

TEST(Norm, SameBitsEachTime) {
  for (const bool rms : {false, true}) {
    const Problem p(33, 130, rms, 0.3);
    EXPECT_TRUE(repeats([&] { return run_forward(p, p.x); }));
    EXPECT_TRUE(repeats([&] { return run_backward(p); }));
  }
}

TEST(Norm, TheComparisonRejectsWrongNorms) {
  const Problem p(7, 65, false, 0.3);
  const std::vector<Tensor> backward = run_backward(p);
  // dx without the two means; gradients that overwrite; the divisor C - 1; layer and RMS norm taken for each other.
  Array no_means(p.x.size());
  for (std::size_t i = 0; i < no_means.size(); ++i) {
    no_means[i] = p.dx_before[i] + p.dout[i] * p.weight[i % 65] * p.forward.rstd[i / 65];
  }
  EXPECT_FALSE(close(backward[0], no_means, p.dx_tolerance()));
  EXPECT_FALSE(close(backward[0], p.backward.dx, p.dx_tolerance()));
  EXPECT_FALSE(close(backward[1], p.backward.dweight, p.dweight_tolerance()));
  EXPECT_FALSE(close(backward[2], p.dbias_before, p.dbias_tolerance()));

  const Tensor out = run_forward(p, p.x)[0];
  Array unbiased = p.forward.out;
  for (std::size_t i = 0; i < unbiased.size(); ++i)
    unbiased[i] = (unbiased[i] - p.bias[i % 65]) * std::sqrt(64.0 / 65.0) + p.bias[i % 65];
  EXPECT_FALSE(close(out, unbiased, p.out_tolerance()));
  EXPECT_FALSE(close(out, reference::rmsnorm_forward(p.x, p.weight, 7, 65, kEpsilon).out, p.out_tolerance()));
}

}  // namespace
}  // namespace cohort::ops
