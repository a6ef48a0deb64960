// Sums, biases and dropout against their references.
#include "ops/pointwise.hpp"

#include <gtest/gtest.h>

#include "ops/compare.hpp"
#include "ops/reference/pointwise.hpp"

namespace cohort::ops {
namespace {

// The shapes of all tests here.
void for_each_shape(const std::function<void(Count rows, Count width)>& test) {
  for (const Count rows : {1, 2, 7, 33, 257}) {
    for (const Count width : {1, 3, 17, 64, 65, 130}) {
      SCOPED_TRACE(fmt::format("[{}, {}]", rows, width));
      test(rows, width);
    }
  }
}

// Two additions: each errs by half of kEps of numbers no larger than the sum of the sizes.
Array additions_error(const std::vector<Input>& terms, Count rows, Count width) {
  Array tolerance(rows * width, 0.0);
  for (const Input term : terms) {
    for (Count i = 0; i < rows * width; ++i) tolerance[i] += kEps * std::abs(term[i % static_cast<Count>(term.size())]);
  }
  return tolerance;
}

TEST(Pointwise, AddBias) {
  for_each_shape([](Count rows, Count width) {
    const Array x = random_values(rows * width, 1), bias = random_values(width, 2);
    const Tensor tensor = tensor_of(x, {rows, width});
    add_bias(test_exec(), tensor, tensor_of(bias, {width}));
    EXPECT_TRUE(close(tensor, reference::add_bias(x, bias, rows, width), additions_error({x, bias}, rows, width)));
  });
}

TEST(Pointwise, BiasBackward) {
  for_each_shape([](Count rows, Count width) {
    const Array dx = random_values(rows * width, 1), before = random_values(width, 2);
    const auto run = [&] {
      const Tensor dbias = tensor_of(before, {width});
      bias_backward(test_exec(), dbias, tensor_of(dx, {rows, width}));
      return std::vector<Tensor>{dbias};
    };
    Array tolerance(width, 0.0);
    for (Count i = 0; i < rows * width; ++i) tolerance[i % width] += sum_error(rows) * std::abs(dx[i]);
    for (Count n = 0; n < width; ++n) tolerance[n] += sum_error(rows) * std::abs(before[n]);
    const Array expected = reference::bias_backward(dx, rows, width);
    const Tensor dbias = run()[0];
    EXPECT_TRUE(close(dbias, sum(before, expected), tolerance));
    EXPECT_TRUE(repeats(run));
    EXPECT_FALSE(close(dbias, before, tolerance));    // planted: no gradient
    EXPECT_FALSE(close(dbias, expected, tolerance));  // planted: overwritten
  });
}

TEST(Pointwise, Add) {
  for_each_shape([](Count rows, Count width) {
    const Array x = random_values(rows * width, 1), y = random_values(rows * width, 2);
    const Tensor out = filled({rows, width}, kGarbage), tx = tensor_of(x, {rows, width}), ty = tensor_of(y, {rows, width});
    add(test_exec(), out, tx, ty);
    EXPECT_TRUE(close(out, sum(x, y), additions_error({x, y}, rows, width)));
    const Tensor into_x = copy_of(tx), into_y = copy_of(ty);
    add(test_exec(), into_x, into_x, ty);
    add(test_exec(), into_y, tx, into_y);
    EXPECT_TRUE(same_bits(into_x, out));
    EXPECT_TRUE(same_bits(into_y, out));
  });
}

TEST(Pointwise, AddResidual) {
  for_each_shape([](Count rows, Count width) {
    const Array x = random_values(rows * width, 1), y = random_values(rows * width, 2), bias = random_values(width, 3);
    const Tensor out = filled({rows, width}, kGarbage), tx = tensor_of(x, {rows, width}), ty = tensor_of(y, {rows, width});
    const Tensor tbias = tensor_of(bias, {width});
    add_residual(test_exec(), out, tx, ty, tbias);
    const Array tolerance = additions_error({x, y, bias}, rows, width);
    EXPECT_TRUE(close(out, reference::add_residual(x, y, bias, rows, width), tolerance));
    EXPECT_FALSE(close(out, sum(x, y), tolerance));  // planted: the bias forgotten
    const Tensor into_x = copy_of(tx), into_y = copy_of(ty);
    add_residual(test_exec(), into_x, into_x, ty, tbias);
    add_residual(test_exec(), into_y, tx, into_y, tbias);
    EXPECT_TRUE(same_bits(into_x, out));
    EXPECT_TRUE(same_bits(into_y, out));
  });
}

const std::vector<Count> kSlots{5, 0, 1'000'003};  // the last one times a large sample lies beyond 2^32

// The key's slots lie on the host.
Tensor run_dropout(Input x, const Shape& shape, DropoutKey key) {
  const Tensor tensor = tensor_of(x, shape);
  const Indices<Count> slots({key.slots.begin(), key.slots.end()});
  key.slots = slots.span();
  dropout(test_exec(), tensor, key);
  return tensor;
}

TEST(Dropout, MatchesTheReference) {
  for (const double p : {0.1, 0.5, 0.9}) {
    for (const Count rows : {1, 7, 33}) {
      for (const Count width : {1, 3, 17, 130}) {
        SCOPED_TRACE(fmt::format("p {} [3 x {}, {}]", p, rows, width));
        const DropoutKey key{p, 77, 3, 9, kSlots};
        const Array x = random_values(3 * rows * width, 1);
        const Array factors = reference::dropout_factors(p, 77, 3, 9, kSlots, rows * width);
        Array expected, tolerance;
        for (std::size_t i = 0; i < x.size(); ++i) {
          expected.push_back(x[i] * factors[i]);
          tolerance.push_back(2.0 * kEps * std::abs(expected[i]));  // the scale and the product; dropped elements are exactly 0
        }
        EXPECT_TRUE(close(run_dropout(x, {3 * rows, width}, key), expected, tolerance));
        EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run_dropout(x, {3 * rows, width}, key)}; }));
      }
    }
  }
}

TEST(Dropout, IndicesBeyond32Bits) {
  const std::vector<Count> slots{Count{1} << 33};
  const Array x(40, 1.0);
  const Array factors = reference::dropout_factors(0.5, 1, 0, 0, slots, 40);
  EXPECT_TRUE(close(run_dropout(x, {8, 5}, {0.5, 1, 0, 0, slots}), factors, 2.0 * kEps));
  EXPECT_NE(factors, reference::dropout_factors(0.5, 1, 0, 0, std::vector<Count>{0}, 40));
}

TEST(Dropout, DoesNothingAtProbabilityZero) {
  const Array x = random_values(6 * 5, 1);
  EXPECT_TRUE(same_bits(run_dropout(x, {6, 5}, {}), tensor_of(x, {6, 5})));
  EXPECT_TRUE(same_bits(run_dropout(x, {6, 5}, {0.0, 1, 2, 3, kSlots}), tensor_of(x, {6, 5})));
}

TEST(Dropout, MaskOfAPartOfTheTokensIsThatPartOfTheWhole) {
  // Samples of 8 tokens, of which tokens 2 and 3, and then 6 alone, are here.
  const std::vector<Count> slots{4, 9};
  const TokenRows rows{8, {TokenRun{0, 2, 2}, TokenRun{2, 6, 1}}};
  const Tensor whole = run_dropout(Array(2 * 8 * 3, 1.0), {16, 3}, {0.5, 1, 2, 3, slots});
  const Tensor part = run_dropout(Array(2 * 3 * 3, 1.0), {6, 3}, {0.5, 1, 2, 3, slots, rows});
  for (Count b = 0; b < 2; ++b) {
    EXPECT_TRUE(same_bits(part.slice(3 * b, 3 * b + 2), whole.slice(8 * b + 2, 8 * b + 4)));
    EXPECT_TRUE(same_bits(part.slice(3 * b + 2, 3 * b + 3), whole.slice(8 * b + 6, 8 * b + 7)));
  }
  EXPECT_FALSE(same_bits(run_dropout(Array(2 * 3 * 3, 1.0), {6, 3}, {0.5, 1, 2, 3, slots}), part));
}

TEST(Dropout, MaskBelongsToTheSampleNotToItsPlace) {
  // Two ranks with one sample each see the masks that one rank with both sees.
  const std::vector<Count> both{4, 9}, first{4}, second{9};
  const Tensor together = run_dropout(Array(2 * 21, 1.0), {14, 3}, {0.5, 1, 2, 3, both});
  EXPECT_TRUE(same_bits(together.slice(0, 7), run_dropout(Array(21, 1.0), {7, 3}, {0.5, 1, 2, 3, first})));
  EXPECT_TRUE(same_bits(together.slice(7, 14), run_dropout(Array(21, 1.0), {7, 3}, {0.5, 1, 2, 3, second})));
}

TEST(Dropout, SomeRowsGetTheMaskOfTheWhole) {
  // Three blocks of rows of two samples; the second block holds the end of one and the beginning of the other.
  const std::vector<Count> slots{4, 9};
  const Tensor together = run_dropout(Array(2 * 27, 1.0), {18, 3}, {0.5, 1, 2, 3, slots});
  for (const Count first : {0, 6, 12}) {
    const Tensor block = run_dropout(Array(18, 1.0), {6, 3}, {0.5, 1, 2, 3, slots, {}, first, 18});
    EXPECT_TRUE(same_bits(together.slice(first, first + 6), block)) << "rows from " << first;
  }
}

TEST(Dropout, TheComparisonRejectsWrongMasks) {
  const std::vector<Count> slots{4, 9}, places{0, 1};
  const Tensor dropped = run_dropout(Array(2 * 21, 1.0), {14, 3}, {0.5, 1, 2, 3, slots});
  EXPECT_TRUE(close(dropped, reference::dropout_factors(0.5, 1, 2, 3, slots, 21), 2.0 * kEps));
  EXPECT_FALSE(close(dropped, reference::dropout_factors(0.5, 1, 2, 3, places, 21), 2.0 * kEps));  // by the place on the rank
  EXPECT_FALSE(close(dropped, reference::dropout_factors(0.5, 1, 2, 4, slots, 21), 2.0 * kEps));   // another layer's
  EXPECT_FALSE(close(dropped, reference::dropout_factors(0.5, 1, 3, 3, slots, 21), 2.0 * kEps));   // another step's
  Array unscaled = reference::dropout_factors(0.5, 1, 2, 3, slots, 21);
  for (double& factor : unscaled) factor *= 0.5;
  EXPECT_FALSE(close(dropped, unscaled, 2.0 * kEps));  // without 1 / (1 - p)
}

TEST(Scale, MultipliesEachElement) {
  for (const Count elements : {0, 1, 17, 1000}) {
    const Array x = random_values(elements, 1);
    const Tensor tensor = tensor_of(x, {elements});
    scale(test_exec(), tensor, -0.3f);
    const Array scaled = values_of(tensor);
    for (Count i = 0; i < elements; ++i) EXPECT_EQ(static_cast<float>(scaled[i]), static_cast<float>(x[i]) * -0.3f);
  }
}

}  // namespace
}  // namespace cohort::ops
