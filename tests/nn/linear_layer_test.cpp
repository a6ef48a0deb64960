// Linear: several side by side are as many separate ones.
#include "nn/linear_layer.hpp"

#include <gtest/gtest.h>

#include "nn/layer_test.hpp"
#include "ops/reference/matmul.hpp"
#include "ops/reference/pointwise.hpp"

namespace cohort::test {
namespace {

constexpr Count kRows = 6, kInputs = 5;
const std::vector<LinearSpec> kSpecs{{"query", 8, 0.02}, {"key", 4, 0.02}, {"value", 3, 0.02}};

// Columns [begin, begin + width) of a [rows, all] tensor.
Array columns(const Tensor& tensor, Count begin, Count width) {
  const Array values = ops::values_of(tensor);
  Array result;
  for (Count r = 0; r < tensor.shape()[0]; ++r) {
    const auto row = values.begin() + r * tensor.shape()[1];
    result.insert(result.end(), row + begin, row + begin + width);
  }
  return result;
}

TEST(Linear, DeclaresWeightsThenBiases) {
  ParameterRegistry registry;
  const Linear linear(registry, kSpecs, kInputs, true);
  const std::vector<std::string> expected{"query.weight", "key.weight", "value.weight", "query.bias", "key.bias", "value.bias"};
  EXPECT_EQ(names_of(linear.parameters()), expected);
  ASSERT_EQ(registry.all().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(registry.all()[i]->name, expected[i]);
  EXPECT_EQ(registry.find("key.weight")->global_shape, Shape({4, kInputs}));
  EXPECT_EQ(registry.find("key.bias")->global_shape, Shape({4}));
  EXPECT_EQ(linear.outputs(), 15);
  EXPECT_EQ(linear.inputs(), kInputs);
  EXPECT_TRUE(linear.has_bias());
  ParameterRegistry without_bias;
  EXPECT_FALSE(Linear(without_bias, kSpecs, kInputs, false).has_bias());
  EXPECT_EQ(without_bias.all().size(), kSpecs.size());
}

// The joined tensors are the parameters' memory, in order.
TEST(Linear, JoinsItsParameters) {
  ParameterRegistry registry;
  const Linear linear(registry, kSpecs, kInputs, true);
  randomise(registry);
  Array weights, biases, weight_gradients, bias_gradients;
  const auto append = [](Array& all, const Tensor& part) {
    const Array values = ops::values_of(part);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const LinearSpec& spec : kSpecs) {
    append(weights, registry.find(spec.name + ".weight")->value);
    append(weight_gradients, registry.find(spec.name + ".weight")->gradient);
    append(biases, registry.find(spec.name + ".bias")->value);
    append(bias_gradients, registry.find(spec.name + ".bias")->gradient);
  }
  EXPECT_EQ(linear.weight().shape(), Shape({15, kInputs}));
  EXPECT_EQ(linear.bias().shape(), Shape({15}));
  EXPECT_EQ(ops::values_of(linear.weight()), weights);
  EXPECT_EQ(ops::values_of(linear.weight_gradient()), weight_gradients);
  EXPECT_EQ(ops::values_of(linear.bias()), biases);
  EXPECT_EQ(ops::values_of(linear.bias_gradient()), bias_gradients);
  linear.weight().slice(8, 9).copy_from(ops::filled({1, kInputs}, 42.0f));
  EXPECT_EQ(ops::values_of(registry.find("key.weight")->value.slice(0, 1)), Array(kInputs, 42.0));
}

// Against separate layers with the same weights: equal but for the rounding of sums over the inputs (forward), all outputs (dx),
// or the rows (weights), of terms of size 5 at most.
TEST(Linear, SideBySideEqualsSeparate) {
  ParameterRegistry registry;
  const Linear together(registry, kSpecs, kInputs, true);
  randomise(registry);
  const Tensor before = ops::copy_of(registry.flat_gradients());
  const StepContext context = context_with();
  const Tensor x = random_tensor({kRows, kInputs}, 1), dy = random_tensor({kRows, 15}, 2);
  const Tensor y = ops::filled({kRows, 15}, ops::kGarbage), dx = ops::filled({kRows, kInputs}, ops::kGarbage);
  together.forward(context, y, x);
  together.backward_input(context, dx, dy);
  together.backward_parameters(context, dy, x);
  const double tolerance = ops::sum_error(15) * 5.0;

  Array sum_of_dx(static_cast<std::size_t>(kRows * kInputs), 0.0);
  Count begin = 0;
  for (const LinearSpec& spec : kSpecs) {
    ParameterRegistry own;
    const Linear alone(own, {spec}, kInputs, true);
    own.allocate(2, {.device = test_device()});
    for (const char* part : {".weight", ".bias"})
      own.find(spec.name + part)->value.copy_from(registry.find(spec.name + part)->value);
    const Tensor own_y = ops::filled({kRows, spec.outputs}, ops::kGarbage), own_dx = ops::filled({kRows, kInputs}, ops::kGarbage);
    const Tensor own_dy = ops::tensor_of(columns(dy, begin, spec.outputs), {kRows, spec.outputs});
    alone.forward(context, own_y, x);
    alone.backward_input(context, own_dx, own_dy);
    alone.backward_parameters(context, own_dy, x);
    EXPECT_TRUE(ops::close(columns(y, begin, spec.outputs), ops::values_of(own_y), Array{tolerance})) << spec.name;
    sum_of_dx = ops::sum(sum_of_dx, ops::values_of(own_dx));
    for (const char* part : {".weight", ".bias"}) {
      const Parameter& parameter = *registry.find(spec.name + part);
      const Tensor own_before = before.slice(parameter.offset, parameter.offset + parameter.elements());
      const Array expected = ops::sum(ops::values_of(own_before), ops::values_of(own.find(spec.name + part)->gradient));
      EXPECT_TRUE(ops::close(parameter.gradient, expected, tolerance)) << spec.name << part;
    }
    begin += spec.outputs;
  }
  EXPECT_TRUE(ops::close(dx, sum_of_dx, tolerance));
}

// y = x W^T + bias, then with a residual added, then without the bias; the reference's product is the same for all.
TEST(Linear, ForwardAddsBiasAndResidualAsAsked) {
  ParameterRegistry registry;
  const Linear linear(registry, kSpecs, kInputs, true);
  randomise(registry);
  const StepContext context = context_with();
  const Tensor x = random_tensor({kRows, kInputs}, 1), residual = random_tensor({kRows, 15}, 2);
  const Array product =
      ops::reference::matmul(ops::values_of(x), false, ops::values_of(linear.weight()), true, kRows, 15, kInputs);
  const Array with_bias = ops::reference::add_bias(product, ops::values_of(linear.bias()), kRows, 15);
  const double tolerance = ops::sum_error(kInputs) * 5.0;
  const Tensor y = ops::filled({kRows, 15}, ops::kGarbage);
  linear.forward_without_bias(context, y, x);
  EXPECT_TRUE(ops::close(y, product, tolerance));
  linear.forward(context, y, x);
  EXPECT_TRUE(ops::close(y, with_bias, tolerance));
  linear.forward(context, y, x, residual);
  EXPECT_TRUE(ops::close(y, ops::sum(with_bias, ops::values_of(residual)), tolerance));
  linear.forward(context, residual, x, residual);
  EXPECT_TRUE(ops::close(residual, ops::values_of(y), tolerance)) << "in place";
}

TEST(Linear, BackwardWeightLeavesTheBiasToTheCaller) {
  ParameterRegistry registry;
  const Linear linear(registry, kSpecs, kInputs, true);
  randomise(registry);
  const Tensor bias_before = ops::copy_of(linear.bias_gradient()), before = ops::copy_of(linear.weight_gradient());
  const StepContext context = context_with();
  const Tensor x = random_tensor({kRows, kInputs}, 1), dy = random_tensor({kRows, 15}, 2);
  linear.backward_weight(context, dy, x);
  EXPECT_TRUE(ops::same_bits(linear.bias_gradient(), bias_before));
  const Tensor alone = ops::copy_of(linear.weight_gradient());
  linear.weight_gradient().copy_from(before);
  linear.backward_parameters(context, dy, x);
  EXPECT_TRUE(ops::same_bits(linear.weight_gradient(), alone)) << "the weight's gradient is the same with the bias's";
  EXPECT_FALSE(ops::same_bits(linear.bias_gradient(), bias_before));
}

// Layers read the 16-bit copies of the parameters, and add to fp32 gradients.
TEST(Linear, ComputesInTheTypeOfThePlacement) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    ParameterRegistry registry;
    const Linear linear(registry, kSpecs, kInputs, true);
    randomise(registry, 0.5, dtype);
    EXPECT_EQ(linear.weight().dtype(), dtype);
    EXPECT_EQ(linear.bias().dtype(), dtype);
    EXPECT_EQ(linear.weight_gradient().dtype(), DType::f32);
    StepContext context = context_with();
    context.dtype = dtype;
    const Array values = ops::random_values(kRows * kInputs, 1);
    const Tensor x = ops::tensor_of_type(dtype, values, {kRows, kInputs});
    const Tensor y = ops::tensor_of_type(dtype, Array(kRows * 15, 0.0), {kRows, 15});
    linear.forward(context, y, x);
    const Array product =
        ops::reference::matmul(ops::values_of(x), false, ops::values_of(linear.weight()), true, kRows, 15, kInputs);
    // One rounding to the type, of numbers below 8, whatever the sum in fp32 adds.
    const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    EXPECT_TRUE(ops::close(y, ops::reference::add_bias(product, ops::values_of(linear.bias()), kRows, 15), 8.0 * unit));
  }
}

}  // namespace
}  // namespace cohort::test
