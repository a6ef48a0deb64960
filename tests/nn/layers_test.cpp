// Norm, FeedForward and Attention as layers: what they declare, add to and overwrite. Their arithmetic is tested in the ops, and
// their place in a model in tests/models.
#include <gtest/gtest.h>

#include <set>

#include "layer_test.hpp"
#include "nn/attention_layer.hpp"
#include "nn/feed_forward.hpp"
#include "nn/norm_layer.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/pointwise.hpp"

namespace cohort::test {
namespace {

constexpr Count kLayerRows = 6, kLayerWidth = 8;

TEST(Norm, DeclaresABiasForLayerNormalisationOnly) {
  ParameterRegistry layer, rms;
  EXPECT_EQ(names_of(Norm(layer, "norm", NormKind::layer, kLayerWidth, 1e-5).parameters()),
            (std::vector<std::string>{"norm.weight", "norm.bias"}));
  EXPECT_EQ(names_of(Norm(rms, "norm", NormKind::rms, kLayerWidth, 1e-5).parameters()), std::vector<std::string>{"norm.weight"});
}

// dx carries the gradient of the residual stream already: backward adds to it.
TEST(Norm, BackwardAddsToTheInputGradient) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    ParameterRegistry registry;
    const Norm norm(registry, "norm", kind, kLayerWidth, 1e-5);
    randomise(registry);
    Arena arena("test", test_device());
    const StepContext context = context_with(&arena);
    const Tensor x = random_tensor({kLayerRows, kLayerWidth}, 1), dy = random_tensor({kLayerRows, kLayerWidth}, 2);
    const Tensor y = ops::filled({kLayerRows, kLayerWidth}, ops::kGarbage), dx = random_tensor({kLayerRows, kLayerWidth}, 3);
    const Array dx_before = ops::values_of(dx), gradient_before = ops::values_of(registry.find("norm.weight")->gradient);
    norm.backward(context, dx, dy, x, norm.forward(context, y, x));

    const Array weight = ops::values_of(registry.find("norm.weight")->value), xs = ops::values_of(x), dys = ops::values_of(dy);
    const auto expected = kind == NormKind::layer
                              ? ops::reference::layernorm_backward(dys, xs, weight, kLayerRows, kLayerWidth, 1e-5)
                              : ops::reference::rmsnorm_backward(dys, xs, weight, kLayerRows, kLayerWidth, 1e-5);
    constexpr double kTolerance = 2e-5;  // the op's own test reasons about it element by element
    EXPECT_TRUE(ops::close(dx, ops::sum(dx_before, expected.dx), kTolerance));
    EXPECT_TRUE(ops::close(registry.find("norm.weight")->gradient, ops::sum(gradient_before, expected.dweight), kTolerance));
  }
}

TEST(FeedForward, DeclaresWhatItsKindHas) {
  ParameterRegistry gelu, swiglu;
  const FeedForward a(gelu, "f", {.kind = FeedForwardKind::gelu, .width = kLayerWidth, .ffn_width = 12});
  const FeedForward b(swiglu, "f", {.kind = FeedForwardKind::swiglu, .width = kLayerWidth, .ffn_width = 12});
  EXPECT_EQ(names_of(a.parameters()), (std::vector<std::string>{"f.up.weight", "f.up.bias", "f.down.weight", "f.down.bias"}));
  EXPECT_EQ(names_of(b.parameters()), (std::vector<std::string>{"f.gate.weight", "f.up.weight", "f.down.weight"}));
  EXPECT_EQ(swiglu.find("f.gate.weight")->global_shape, Shape({12, kLayerWidth}));
  EXPECT_EQ(swiglu.find("f.down.weight")->global_shape, Shape({kLayerWidth, 12}));
}

// The biases at the ends of both branches are the layers' own, and so is the residual that a block gives them.
TEST(FeedForward, AddsItsDownBiasAndTheResidual) {
  ParameterRegistry registry;
  const FeedForward layer(registry, "f", {.kind = FeedForwardKind::gelu, .width = kLayerWidth, .ffn_width = 12});
  randomise(registry);
  Arena arena("test", test_device());
  const StepContext context = context_with(&arena);
  const Tensor x = random_tensor({kLayerRows, kLayerWidth}, 1), dy = random_tensor({kLayerRows, kLayerWidth}, 2),
               residual = random_tensor({kLayerRows, kLayerWidth}, 3);
  const Tensor y = ops::filled({kLayerRows, kLayerWidth}, ops::kGarbage),
               dx = ops::filled({kLayerRows, kLayerWidth}, ops::kGarbage);
  const Parameter& bias = *registry.find("f.down.bias");
  const auto saved = layer.forward(context, y, x);
  const Array with_bias = ops::values_of(y), bias_values = ops::values_of(bias.value),
              gradient_before = ops::values_of(bias.gradient);
  layer.backward(context, dx, dy, x, saved);
  const Array expected = ops::sum(gradient_before, ops::reference::bias_backward(ops::values_of(dy), kLayerRows, kLayerWidth));
  EXPECT_TRUE(ops::close(bias.gradient, expected, ops::sum_error(kLayerRows) * 12.0));  // seven numbers of size 1
  for (const double value : ops::values_of(dx)) EXPECT_TRUE(std::isfinite(value)) << "dx is overwritten";

  layer.forward(context, y, x, residual);
  // A sum of 12 products of numbers around 0.5, the bias and the residual.
  const double tolerance = ops::sum_error(14) * 12.0;
  EXPECT_TRUE(ops::close(y, ops::sum(with_bias, ops::values_of(residual)), tolerance));
  set_all(registry, "f.down.bias", 0.0f);
  layer.forward(context, y, x);
  EXPECT_TRUE(
      ops::close(ops::reference::add_bias(ops::values_of(y), bias_values, kLayerRows, kLayerWidth), with_bias, Array{tolerance}));
}

TEST(Attention, AddsItsOutputBiasAndTheResidual) {
  ParameterRegistry registry;
  const Attention layer(
      registry, "a", {.width = kLayerWidth, .heads = 2, .kv_heads = 1, .head_size = kLayerWidth / 2, .tokens = 3, .bias = true},
      0);
  randomise(registry);
  Arena arena("test", test_device());
  const StepContext context = context_with(&arena);
  const Tensor x = random_tensor({kLayerRows, kLayerWidth}, 1), dy = random_tensor({kLayerRows, kLayerWidth}, 2),
               residual = random_tensor({kLayerRows, kLayerWidth}, 3);
  const Tensor y = ops::filled({kLayerRows, kLayerWidth}, ops::kGarbage),
               dx = ops::filled({kLayerRows, kLayerWidth}, ops::kGarbage);
  const Parameter& bias = *registry.find("a.output.bias");
  const auto saved = layer.forward(context, y, x, 2);
  const Array with_bias = ops::values_of(y), bias_values = ops::values_of(bias.value),
              gradient_before = ops::values_of(bias.gradient);
  layer.backward(context, dx, dy, x, saved);
  const Array expected = ops::sum(gradient_before, ops::reference::bias_backward(ops::values_of(dy), kLayerRows, kLayerWidth));
  EXPECT_TRUE(ops::close(bias.gradient, expected, ops::sum_error(kLayerRows) * 12.0));
  for (const double value : ops::values_of(dx)) EXPECT_TRUE(std::isfinite(value)) << "dx is overwritten";

  layer.forward(context, y, x, 2, residual);
  const double tolerance = ops::sum_error(kLayerWidth + 2) * 12.0;
  EXPECT_TRUE(ops::close(y, ops::sum(with_bias, ops::values_of(residual)), tolerance));
  set_all(registry, "a.output.bias", 0.0f);
  layer.forward(context, y, x, 2);
  EXPECT_TRUE(
      ops::close(ops::reference::add_bias(ops::values_of(y), bias_values, kLayerRows, kLayerWidth), with_bias, Array{tolerance}));
}

TEST(Attention, DeclaresItsProjections) {
  ParameterRegistry registry;
  const Attention layer(registry, "a", {.width = 12, .heads = 6, .kv_heads = 2, .head_size = 2, .tokens = 4, .bias = true}, 0);
  const std::set<std::string> expected{"a.query.weight", "a.key.weight", "a.value.weight", "a.output.weight",
                                       "a.query.bias",   "a.key.bias",   "a.value.bias",   "a.output.bias"};
  const auto names = names_of(layer.parameters());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), expected);
  EXPECT_EQ(names.size(), expected.size());
  EXPECT_EQ(registry.find("a.query.weight")->global_shape, Shape({12, 12}));
  EXPECT_EQ(registry.find("a.key.weight")->global_shape, Shape({4, 12}));
  EXPECT_EQ(registry.find("a.value.weight")->global_shape, Shape({4, 12}));
}

// One head as wide as a sample is long, inputs that are the identity, and no preference for any token: then the output is the
// matrix of softmax weights 1 / (i + 1) itself, times the factors of dropout.
TEST(Attention, DropsSoftmaxWeightsByLayerStepAndSlot) {
  constexpr Count kTokens = 8;
  constexpr double kProbability = 0.4;
  const std::vector<Count> slots{7, 3};
  const ops::Indices<Count> device_slots(slots);
  for (const std::uint32_t layer_key : {0u, 5u}) {
    ParameterRegistry registry;
    const Attention layer(
        registry, "a",
        {.width = kTokens, .heads = 1, .kv_heads = 1, .head_size = kTokens, .tokens = kTokens, .dropout = kProbability},
        layer_key);
    registry.allocate(1, {.device = test_device()});
    set_all(registry, "a.query.weight", 0.0f);
    set_all(registry, "a.key.weight", 0.0f);
    set_identity(registry, "a.value.weight");
    set_identity(registry, "a.output.weight");
    Array identities(static_cast<std::size_t>(2 * kTokens * kTokens), 0.0);
    for (Count r = 0; r < 2 * kTokens; ++r) identities[static_cast<std::size_t>(r * kTokens + r % kTokens)] = 1.0;
    const Tensor x = ops::tensor_of(identities, {2 * kTokens, kTokens}), y = ops::filled(x.shape(), ops::kGarbage);
    Arena arena("test", test_device());
    StepContext context = context_with(&arena);
    context.training = true;
    context.seed = 11;
    context.step = 4;
    context.slots = device_slots.span();
    layer.forward(context, y, x, 2);
    Array expected = ops::reference::dropout_factors(kProbability, 11, 4, layer_key, slots, kTokens * kTokens);
    for (Count i = 0; i < static_cast<Count>(expected.size()); ++i) {
      const Count query = i / kTokens % kTokens, key = i % kTokens;
      expected[i] *= key <= query ? 1.0 / static_cast<double>(query + 1) : 0.0;
    }
    EXPECT_TRUE(ops::close(y, expected, 4.0 * ops::kEps)) << "layer " << layer_key;  // a division and two products
    context.training = false;
    layer.forward(context, y, x, 2);
    for (Count i = 0; i < static_cast<Count>(expected.size()); ++i) {
      const Count query = i / kTokens % kTokens, key = i % kTokens;
      expected[i] = key <= query ? 1.0 / static_cast<double>(query + 1) : 0.0;
    }
    EXPECT_TRUE(ops::close(y, expected, 4.0 * ops::kEps)) << "evaluation drops nothing";
  }
}

}  // namespace
}  // namespace cohort::test
