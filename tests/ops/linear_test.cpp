// Linear layers with what is fused to them, against references put together from the matrix product and the pointwise functions.
#include "ops/linear.hpp"

#include <gtest/gtest.h>

#include "ops/compare.hpp"
#include "ops/reference/activation.hpp"
#include "ops/reference/matmul.hpp"

namespace cohort::ops {
namespace {

Array sizes(Array values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

// x [R, K] through a weight [N, K] and a bias [N]; rows of y and dy are `padding` elements longer than N.
struct Problem {
  Problem(Count rows_, Count inputs_, Count outputs_, Count padding_ = 0)
      : rows(rows_), inputs(inputs_), outputs(outputs_), padding(padding_) {
    x = random_values(rows * inputs, 1);
    weight = random_values(outputs * inputs, 2, 1.0 / std::sqrt(static_cast<double>(inputs)));
    bias = random_values(outputs, 3);
    residual = random_values(rows * outputs, 4);
    dy = random_values(rows * outputs, 5);
    dweight_before = random_values(outputs * inputs, 6);
    dbias_before = random_values(outputs, 7);
  }

  // x W^T, and the sums of the sizes of its terms.
  Array product() const { return reference::matmul(x, false, weight, true, rows, outputs, inputs); }
  Array product_sizes() const { return reference::matmul(sizes(x), false, sizes(weight), true, rows, outputs, inputs); }
  Array column_sums(Input of) const {
    Array sums(outputs, 0.0);
    for (Count i = 0; i < rows * outputs; ++i) sums[i % outputs] += of[i];
    return sums;
  }

  // A [R, N] matrix with the padding full of garbage, and back.
  Tensor padded(Input values) const {
    Array all;
    for (Count r = 0; r < rows; ++r) {
      all.insert(all.end(), values.begin() + r * outputs, values.begin() + (r + 1) * outputs);
      all.insert(all.end(), static_cast<std::size_t>(padding), kGarbage);
    }
    return tensor_of(all, {rows, outputs + padding});
  }
  Array unpadded(const Tensor& tensor) const {
    const Array all = values_of(tensor);
    Array values;
    for (Count i = 0; i < static_cast<Count>(all.size()); ++i) {
      if (i % (outputs + padding) < outputs) values.push_back(all[i]);
    }
    return values;
  }

  Tensor tx() const { return tensor_of(x, {rows, inputs}); }
  Tensor tweight() const { return tensor_of(weight, {outputs, inputs}); }
  Tensor tbias() const { return tensor_of(bias, {outputs}); }

  Count rows, inputs, outputs, padding;
  Array x, weight, bias, residual, dy, dweight_before, dbias_before;
};

void for_each_problem(const std::function<void(const Problem&)>& test) {
  for (const Count rows : {1, 2, 7, 64, 130}) {
    for (const Count inputs : {1, 8, 17, 64}) {
      for (const Count outputs : {1, 3, 8, 65}) {
        SCOPED_TRACE(fmt::format("[{}, {}] by [{}, {}]", rows, inputs, outputs, inputs));
        test(Problem(rows, inputs, outputs));
      }
    }
  }
}

// Of a sum of `terms` and of the products of x and the weight.
Array forward_tolerance(const Problem& p, const std::vector<Input>& terms) {
  Array tolerance = p.product_sizes();
  for (const Input term : terms) {
    for (Count i = 0; i < p.rows * p.outputs; ++i) tolerance[i] += std::abs(term[i % static_cast<Count>(term.size())]);
  }
  for (double& value : tolerance) value *= sum_error(p.inputs + 2);
  return tolerance;
}

Array plus_bias(const Problem& p, Array values) {
  for (Count i = 0; i < p.rows * p.outputs; ++i) values[i] += p.bias[i % p.outputs];
  return values;
}

TEST(Linear, Forward) {
  for_each_problem([](const Problem& p) {
    const Tensor with_bias = filled({p.rows, p.outputs}, kGarbage), without = filled({p.rows, p.outputs}, kGarbage);
    linear_forward(test_exec(), with_bias, p.tx(), p.tweight(), p.tbias());
    linear_forward(test_exec(), without, p.tx(), p.tweight());
    EXPECT_TRUE(close(with_bias, plus_bias(p, p.product()), forward_tolerance(p, {p.bias})));
    EXPECT_TRUE(close(without, p.product(), forward_tolerance(p, {})));
    EXPECT_FALSE(close(with_bias, p.product(), forward_tolerance(p, {p.bias})));  // planted: the bias forgotten
  });
}

TEST(Linear, ResidualForward) {
  for_each_problem([](const Problem& p) {
    for (const bool with_bias : {true, false}) {
      const Tensor residual = tensor_of(p.residual, {p.rows, p.outputs}), y = filled({p.rows, p.outputs}, kGarbage);
      const Tensor bias = with_bias ? p.tbias() : Tensor{};
      linear_residual_forward(test_exec(), y, residual, p.tx(), p.tweight(), bias);
      const Array expected = sum(p.residual, with_bias ? plus_bias(p, p.product()) : p.product());
      const Array tolerance = forward_tolerance(p, {p.residual, p.bias});
      EXPECT_TRUE(close(y, expected, tolerance)) << "bias: " << with_bias;
      EXPECT_TRUE(same_bits(residual, tensor_of(p.residual, {p.rows, p.outputs})));
      EXPECT_FALSE(close(y, with_bias ? plus_bias(p, p.product()) : p.product(), tolerance));  // planted: no residual
      linear_residual_forward(test_exec(), residual, residual, p.tx(), p.tweight(), bias);
      EXPECT_TRUE(close(residual, expected, tolerance)) << "in place, bias: " << with_bias;
    }
  });
}

TEST(Linear, BackwardInput) {
  for_each_problem([](const Problem& p) {
    const Tensor dx = filled({p.rows, p.inputs}, kGarbage);
    linear_backward_input(test_exec(), dx, tensor_of(p.dy, {p.rows, p.outputs}), p.tweight());
    Array tolerance = reference::matmul(sizes(p.dy), false, sizes(p.weight), false, p.rows, p.inputs, p.outputs);
    for (double& value : tolerance) value *= sum_error(p.outputs);
    EXPECT_TRUE(close(dx, reference::matmul(p.dy, false, p.weight, false, p.rows, p.inputs, p.outputs), tolerance));
  });
}

TEST(Linear, BackwardWeightAddsToTheGradients) {
  for_each_problem([](const Problem& p) {
    const Tensor dy = tensor_of(p.dy, {p.rows, p.outputs});
    const Tensor dweight = tensor_of(p.dweight_before, {p.outputs, p.inputs}), dbias = tensor_of(p.dbias_before, {p.outputs});
    linear_backward_weight(test_exec(), dweight, dbias, dy, p.tx());
    const Array expected = reference::matmul(p.dy, true, p.x, false, p.outputs, p.inputs, p.rows);
    Array tolerance =
        sum(reference::matmul(sizes(p.dy), true, sizes(p.x), false, p.outputs, p.inputs, p.rows), sizes(p.dweight_before));
    for (double& value : tolerance) value *= sum_error(p.rows + 1);
    EXPECT_TRUE(close(dweight, sum(p.dweight_before, expected), tolerance));
    EXPECT_FALSE(close(dweight, expected, tolerance));  // planted: overwritten
    Array bias_tolerance = sum(p.column_sums(sizes(p.dy)), sizes(p.dbias_before));
    for (double& value : bias_tolerance) value *= sum_error(p.rows + 1);
    EXPECT_TRUE(close(dbias, sum(p.dbias_before, p.column_sums(p.dy)), bias_tolerance));
    EXPECT_FALSE(close(dbias, p.column_sums(p.dy), bias_tolerance));  // planted: overwritten
    const Tensor alone = tensor_of(p.dweight_before, {p.outputs, p.inputs});
    linear_backward_weight(test_exec(), alone, {}, dy, p.tx());
    EXPECT_TRUE(close(alone, sum(p.dweight_before, expected), tolerance)) << "without a bias";
  });
}

// Logits: rows longer than the vocabulary. Forward leaves the padding, backward does not read it.
TEST(Linear, PaddedRows) {
  for (const Count padding : {1, 7, 63}) {
    const Problem p(33, 17, 65, padding);
    SCOPED_TRACE(fmt::format("padding {}", padding));
    const Tensor y = p.padded(Array(33 * 65, 0.0));
    linear_forward(test_exec(), y, p.tx(), p.tweight());
    EXPECT_TRUE(close(p.unpadded(y), p.product(), forward_tolerance(p, {})));
    const Array all = values_of(y);
    for (Count i = 0; i < static_cast<Count>(all.size()); ++i) ASSERT_EQ(std::isnan(all[i]), i % (65 + padding) >= 65) << i;

    const Tensor dx = filled({33, 17}, kGarbage), dweight = tensor_of(p.dweight_before, {65, 17});
    linear_backward_input(test_exec(), dx, p.padded(p.dy), p.tweight());
    linear_backward_weight(test_exec(), dweight, {}, p.padded(p.dy), p.tx());
    const Tensor plain_dx = filled({33, 17}, kGarbage), plain_dweight = tensor_of(p.dweight_before, {65, 17});
    linear_backward_input(test_exec(), plain_dx, tensor_of(p.dy, {33, 65}), p.tweight());
    linear_backward_weight(test_exec(), plain_dweight, {}, tensor_of(p.dy, {33, 65}), p.tx());
    // Another stride may be another kernel: sums of 65 and of 33 products of normal numbers in another order, thrice what they
    // usually come to.
    EXPECT_TRUE(close(dx, values_of(plain_dx), sum_error(65) * 3.0 * 65.0 / std::sqrt(17.0)));
    EXPECT_TRUE(close(dweight, values_of(plain_dweight), sum_error(33) * 3.0 * 33.0));
  }
}

// What the backward op keeps in `before` is its own business, so both ops are run: after = gelu(x W^T + bias), and the gradient
// through the layer behind it, with weight `next` [M, N] and the gradient dz [R, M] of its output.
TEST(Linear, Gelu) {
  constexpr Count kNext = 24;
  constexpr double kFewOps = 12.0 * kEps;  // as in the test of the activations
  for_each_problem([](const Problem& p) {
    const Array dz = random_values(p.rows * kNext, 11), next = random_values(kNext * p.outputs, 12);
    const Tensor after = filled({p.rows, p.outputs}, kGarbage), before = filled({p.rows, p.outputs}, kGarbage);
    linear_gelu_forward(test_exec(), after, before, p.tx(), p.tweight(), p.tbias());
    const Tensor dbefore = filled({p.rows, p.outputs}, kGarbage), dbias = tensor_of(p.dbias_before, {p.outputs});
    linear_gelu_backward(test_exec(), dbefore, dbias, tensor_of(dz, {p.rows, kNext}), tensor_of(next, {kNext, p.outputs}), before,
                         p.tbias());

    const Array z = plus_bias(p, p.product()), z_error = forward_tolerance(p, {p.bias});
    const Array dafter = reference::matmul(dz, false, next, false, p.rows, p.outputs, kNext);
    const Array dafter_sizes = reference::matmul(sizes(dz), false, sizes(next), false, p.rows, p.outputs, kNext);
    Array expected_after, after_error, expected, error;
    for (Count i = 0; i < p.rows * p.outputs; ++i) {
      // gelu' and gelu'' are at most 1.13; the slope's own error is that of the activations' test.
      expected_after.push_back(reference::gelu(z[i]));
      after_error.push_back(1.13 * z_error[i] + kFewOps * std::abs(z[i]));
      expected.push_back(dafter[i] * reference::gelu_slope(z[i]));
      const double slope_error = kFewOps * (1.0 + 2.0 * std::abs(z[i]) * (1.0 + 0.134 * z[i] * z[i])) + 1.13 * z_error[i];
      error.push_back(std::abs(dafter[i]) * slope_error + 1.13 * sum_error(kNext) * dafter_sizes[i]);
    }
    EXPECT_TRUE(close(after, expected_after, after_error));
    EXPECT_TRUE(close(dbefore, expected, error));
    Array dbias_error = p.column_sums(error);
    const Array dbias_sizes = sum(p.column_sums(sizes(expected)), sizes(p.dbias_before));
    for (Count n = 0; n < p.outputs; ++n) dbias_error[n] += sum_error(p.rows + 1) * dbias_sizes[n];
    EXPECT_TRUE(close(dbias, sum(p.dbias_before, p.column_sums(expected)), dbias_error));
    EXPECT_FALSE(close(dbias, p.column_sums(expected), dbias_error));  // planted: overwritten
    EXPECT_FALSE(close(dbefore, dafter, error));                       // planted: no slope
  });
}

TEST(Linear, SameBitsEachTime) {
  const Problem p(130, 64, 65);
  const Tensor dy = tensor_of(p.dy, {p.rows, p.outputs});
  EXPECT_TRUE(repeats([&] {
    const Tensor y = filled({p.rows, p.outputs}, kGarbage), dx = filled({p.rows, p.inputs}, kGarbage);
    const Tensor dweight = tensor_of(p.dweight_before, {p.outputs, p.inputs}), dbias = tensor_of(p.dbias_before, {p.outputs});
    linear_forward(test_exec(), y, p.tx(), p.tweight(), p.tbias());
    linear_backward_input(test_exec(), dx, dy, p.tweight());
    linear_backward_weight(test_exec(), dweight, dbias, dy, p.tx());
    return std::vector<Tensor>{y, dx, dweight, dbias};
  }));
}

TEST(Linear, ShapesThatDoNotFitAreRefused) {
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "these are the checks of the product on the CPU";
  const Tensor x = filled({3, 4}, 1.0f), weight = filled({5, 4}, 1.0f), bias = filled({5}, 1.0f);
  EXPECT_THROW(linear_forward(test_exec(), filled({3, 4}, 0.0f), x, weight), Error);          // y is too narrow
  if (test_exec().kernels == Kernels::tuned) {                                                // the CPU's adds it to whole rows
    EXPECT_THROW(linear_forward(test_exec(), filled({3, 6}, 0.0f), x, weight, bias), Error);  // a bias beside padding
  }
  EXPECT_THROW(linear_forward(test_exec(), filled({2, 5}, 0.0f), x, weight), Error);  // other rows
}

}  // namespace
}  // namespace cohort::ops
