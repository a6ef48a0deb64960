// The product of few rows against the reference's, and that a row's bits do not depend on what is beside it.
#include "ops/row_product.hpp"

#include <gtest/gtest.h>

#include "ops/activation.hpp"
#include "ops/compare.hpp"
#include "ops/linear.hpp"
#include "ops/reference/matmul.hpp"

namespace cohort::ops {
namespace {

constexpr Count kPadding = 5;

Array absolute(Array values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

struct RowProblem {
  RowProblem(Count rows_, Count inputs_, Count outputs_)
      : rows(rows_),
        inputs(inputs_),
        outputs(outputs_),
        x(random_values(rows * inputs, 1)),
        weight(random_values(outputs * inputs, 2)),
        bias(random_values(outputs, 3)),
        residual(random_values(rows * outputs, 4)) {}

  Tensor weights(DType type = DType::f32) const { return tensor_of_type(type, weight, {outputs, inputs}); }
  Tensor biases(DType type = DType::f32) const { return tensor_of_type(type, bias, {outputs}); }
  // Rows [first, end) of x, or of the residual.
  Tensor rows_of(const Array& values, Count width, Count first, Count end, DType type = DType::f32) const {
    return tensor_of_type(type, Input(values).subspan(first * width, (end - first) * width), {end - first, width});
  }

  Count rows, inputs, outputs;
  Array x, weight, bias, residual;
};

void check(const RowProblem& p) {
  SCOPED_TRACE(fmt::format("[{}, {}] by [{}, {}]", p.rows, p.inputs, p.outputs, p.inputs));
  Array expected = reference::matmul(p.x, false, p.weight, true, p.rows, p.outputs, p.inputs);
  Array tolerance = reference::matmul(absolute(p.x), false, absolute(p.weight), true, p.rows, p.outputs, p.inputs);
  for (double& value : tolerance) value = value * sum_error(p.inputs) + 1e-30;
  const Tensor x = p.rows_of(p.x, p.inputs, 0, p.rows);
  const Tensor padded = filled({p.rows, p.outputs + kPadding}, 7.0f);
  row_product(test_exec(), padded, x, p.weights(), {}, {});
  const Array values = values_of(padded);
  Array first;
  for (Count i = 0; i < static_cast<Count>(values.size()); ++i) {
    if (i % (p.outputs + kPadding) < p.outputs) {
      first.push_back(values[i]);
    } else {
      ASSERT_EQ(values[i], 7.0) << "padding is left alone";
    }
  }
  EXPECT_TRUE(close(first, expected, tolerance));

  for (Count i = 0; i < static_cast<Count>(expected.size()); ++i) {
    expected[i] += p.residual[i] + p.bias[i % p.outputs];
    tolerance[i] += 4.0 * kEps * (std::abs(expected[i]) + std::abs(p.residual[i]) + std::abs(p.bias[i % p.outputs]));
  }
  const Tensor y = p.rows_of(p.residual, p.outputs, 0, p.rows);  // in place
  row_product(test_exec(), y, x, p.weights(), y, p.biases());
  EXPECT_TRUE(close(y, expected, tolerance));
}

TEST(RowProduct, IsTheProduct) {
  for (const Count rows : {1, 2, 3, 4, 5, 9}) {
    for (const Count inputs : {1, 5, 31, 32, 33, 64, 200}) check({rows, inputs, 37});
  }
  check({1, 768, 5});
  check({3, 64, 1});
}

// Whatever rows are beside a row, and how many: the same bits.
TEST(RowProduct, EachRowIsByItself) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const Count inputs : {33, 64, 200}) {
      const RowProblem p(11, inputs, 29);
      const auto run = [&](Count first, Count end) {
        const Tensor y = filled({end - first, p.outputs}, kGarbage);
        const Tensor out = Tensor::zeros("test", y.shape(), type, test_device());
        row_product(test_exec(), out, p.rows_of(p.x, inputs, first, end, type), p.weights(type),
                    p.rows_of(p.residual, p.outputs, first, end, type), p.biases(type));
        return out;
      };
      const Tensor all = run(0, p.rows);
      for (Count first = 0; first < p.rows; ++first) {
        for (Count end = first + 1; end <= p.rows; ++end)
          EXPECT_TRUE(same_bits(run(first, end), all.slice(first, end))) << name_of(type) << ": rows " << first << " to " << end;
      }
    }
  }
}

// The linear layers use it when they are told to, and then agree with themselves.
TEST(RowProduct, IsTheLinearLayersProductRowByRow) {
  const RowProblem p(6, 100, 48);
  Exec exec = test_exec();
  exec.row_by_row = true;
  const Tensor x = p.rows_of(p.x, p.inputs, 0, p.rows), residual = p.rows_of(p.residual, p.outputs, 0, p.rows);
  const Tensor expected = filled({p.rows, p.outputs}, kGarbage), y = filled({p.rows, p.outputs}, kGarbage);
  row_product(exec, expected, x, p.weights(), {}, p.biases());
  linear_forward(exec, y, x, p.weights(), p.biases());
  EXPECT_TRUE(same_bits(y, expected));
  row_product(exec, expected, x, p.weights(), residual, p.biases());
  linear_residual_forward(exec, y, residual, x, p.weights(), p.biases());
  EXPECT_TRUE(same_bits(y, expected));
  const Tensor before = filled({p.rows, p.outputs}, kGarbage), after = filled({p.rows, p.outputs}, kGarbage);
  row_product(exec, expected, x, p.weights(), {}, {});
  gelu_forward(exec, y, expected, p.biases());
  linear_gelu_forward(exec, after, before, x, p.weights(), p.biases());
  EXPECT_TRUE(same_bits(after, y));
}

}  // namespace
}  // namespace cohort::ops
