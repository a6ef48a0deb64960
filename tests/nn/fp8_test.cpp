// Layers whose products are in 8 bits, against themselves in bf16.
#include <gtest/gtest.h>

#include "nn/block.hpp"
#include "nn/layer_test.hpp"
#include "ops/fp8_on_host.hpp"

namespace cohort::test {
namespace {

constexpr Count kSamples = 2, kTokens = 16, kRows8 = kSamples * kTokens, kWidth = 32;

BlockSpec block_spec(FeedForwardKind kind, Recompute recompute) {
  const bool bias = kind == FeedForwardKind::gelu;
  return {.attention = {.width = kWidth, .heads = 2, .kv_heads = 2, .head_size = kWidth / 2, .tokens = kTokens, .bias = bias},
          .feed_forward = {.kind = kind, .width = kWidth, .ffn_width = 4 * kWidth},
          .norm = bias ? NormKind::layer : NormKind::rms,
          .recompute = recompute};
}

// What a pass forward and backward leaves: the output, the input's gradient, and those of the parameters.
struct Left {
  Array out, dx, gradients;
};

Left pass(FeedForwardKind kind, bool fp8, Recompute recompute = Recompute::none) {
  ParameterRegistry registry;
  const Block block(registry, "b", block_spec(kind, recompute), 0);
  randomise(registry, 0.2, DType::bf16);
  registry.flat_gradients().zero();
  Arena arena{"test", test_device()};
  StepContext context = context_with(&arena);
  context.exec.fp8 = fp8;
  context.dtype = DType::bf16;
  context.training = true;
  const auto tensor = [](std::uint32_t stream) {
    return ops::tensor_of_type(DType::bf16, ops::random_values(kRows8 * kWidth, stream), {kRows8, kWidth});
  };
  const Tensor x = tensor(1), out = tensor(2), dx = tensor(3);  // the last: of out, and then of x
  const Block::Saved saved = block.forward(context, arena, out, x, kSamples);
  block.backward(context, dx, saved);
  return {ops::values_of(out), ops::values_of(dx), ops::values_of(registry.flat_gradients())};
}

// Of the difference, relative to b.
double relative_norm(const Array& a, const Array& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

// Rounding to 3 bits of mantissa errs by 2^-4 at most, and by some 2.6 % in the root mean square; to 2 bits by twice that. A
// product of two operands with independent errors has the root of the sum of their squares: 3.7 % forward, 5.8 % backward. A
// gradient has gone through four such products in a row, the output through two a branch, beside a residual without error.
TEST(Fp8Layers, ABlockIsThatOfBf16ButForTheRounding) {
  ops::on_host::use();
  for (const FeedForwardKind kind : {FeedForwardKind::gelu, FeedForwardKind::swiglu}) {
    const Left bf16 = pass(kind, false), fp8 = pass(kind, true);
    for (const auto& [what, found, expected, allowed] : {std::tuple{"output", &fp8.out, &bf16.out, 0.08},
                                                         {"dx", &fp8.dx, &bf16.dx, 0.12},
                                                         {"gradients", &fp8.gradients, &bf16.gradients, 0.12}}) {
      const double difference = relative_norm(*found, *expected);
      EXPECT_LT(difference, allowed) << what;
      EXPECT_GT(difference, 0.005) << what << ": products are to be in 8 bits";
    }
    EXPECT_EQ(pass(kind, true).gradients, fp8.gradients) << "twice the same bits";
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      const Left again = pass(kind, true, recompute);
      EXPECT_EQ(again.dx, fp8.dx);
      EXPECT_EQ(again.gradients, fp8.gradients);
    }
  }
}

// Adapters multiply in bf16, the frozen weight under them in 8 bits.
TEST(Fp8Layers, AdaptersJoinTheProducts) {
  ops::on_host::use();
  const auto product = [](bool fp8) {
    ParameterRegistry registry;
    const Linear linear(registry, {{"l", 48, 0.02}}, kWidth, false, TensorParallel::none(),
                        {.rank = 3, .alpha = 6.0, .adapts = [](const std::string&) { return true; }});
    randomise(registry, 0.2, DType::bf16);
    Arena arena{"test", test_device()};
    StepContext context = context_with(&arena);
    context.exec.fp8 = fp8;
    context.dtype = DType::bf16;
    const auto values = [](Count columns, std::uint32_t stream) {
      return ops::tensor_of_type(DType::bf16, ops::random_values(kRows8 * columns, stream), {kRows8, columns});
    };
    const Tensor x = values(kWidth, 1), y = values(48, 2), dy = values(48, 3), dx = values(kWidth, 4);
    linear.forward(context, y, x);
    const OutputGradient gradient = linear.output_gradient(context, dy);
    linear.backward_input(context, dx, gradient);
    linear.backward_parameters(context, gradient, x);
    return Left{ops::values_of(y), ops::values_of(dx), ops::values_of(registry.flat_gradients())};
  };
  const Left bf16 = product(false), fp8 = product(true);
  EXPECT_LT(relative_norm(fp8.out, bf16.out), 0.08);
  EXPECT_LT(relative_norm(fp8.dx, bf16.dx), 0.12);
  EXPECT_LT(relative_norm(fp8.gradients, bf16.gradients), 0.12);
  EXPECT_NE(fp8.out, bf16.out);
}

}  // namespace
}  // namespace cohort::test
