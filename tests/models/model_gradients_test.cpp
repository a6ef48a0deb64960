// Every parameter's gradient, and what is promised about several passes.
#include <gtest/gtest.h>

#include "gradient_check.hpp"
#include "model_cases.hpp"

namespace cohort::test {
namespace {

class ModelGradients : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelGradients, AreThoseOfTheReference) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  GradientCheck check(config, *model, batch.input());
  EXPECT_TRUE(check.accepts(run_pass(*model, batch.input()).gradients));
}

INSTANTIATE_TEST_SUITE_P(Models, ModelGradients, ::testing::ValuesIn(model_cases()), name_of_case);

// A batch and a vocabulary for which the logits come in several chunks: their memory at the peak is less than that of all logits.
// Chunks of a CPU have 2^22 logits, and the last of these is smaller; those of a GPU have 2^30. Finite differences would take
// long; each sample alone, which fits one chunk, was compared with them above.
TEST(ModelGradientsOfManyLogits, AreTheSumOverSamplesOfOneChunk) {
  for (const bool tied_head : {true, false}) {
    ModelSection config = gpt2_config(tied_head);
    config.context = 40;
    const bool on_gpu = test_device() == DeviceKind::gpu;
    config.vocabulary = on_gpu ? 1'000'003 : 20'011;
    const auto model = make_bent_model(config);
    const TestBatch batch = make_batch(config, on_gpu ? 32 : 8, config.context);
    const Bytes all_logits = static_cast<Bytes>(batch.inputs.size()) * config.vocabulary * 4;
    Arena arena("test", test_device());
    DeviceInputs inputs;
    const StepContext context = context_with(*model, arena);
    Hooks none;
    model->loss(context, inputs.put(batch.input()), none);
    const double loss = ops::number_of(context.loss_sum);
    ASSERT_LT(arena.peak_bytes(), all_logits) << "the vocabulary is too small for this test: the logits came in one chunk";

    const Pass whole = run_pass(*model, batch.input());
    constexpr double kLossError = 1e-6;  // ops::sum_error, of errors that cancel over the rows
    if (on_gpu) {
      EXPECT_NEAR(whole.loss, loss, kLossError * loss);  // rows as long as these are summed by more threads for the gradient
    } else {
      EXPECT_EQ(whole.loss, loss);
      const ReferenceModel reference(config, by_name(model->parameters(), model->parameters().flat_values()));
      EXPECT_NEAR(loss, reference.loss(batch.input()), kLossError * loss);
    }
    model->parameters().zero_gradients();
    Pass sum;
    double sum_of_losses = 0.0;
    for (Count sample = 0; sample < batch.samples; ++sample) {
      sum = run_pass(*model, batch.input().slice(sample, sample + 1), {.accumulate = true});
      sum_of_losses += sum.loss;
    }
    EXPECT_NEAR(loss, sum_of_losses, kLossError * loss);
    // A gradient of the stream sums over the vocabulary, which here has more terms than kReordered is for.
    const double tolerance = on_gpu ? ops::sum_error(config.vocabulary) : kReordered;
    EXPECT_TRUE(same_to_rounding(*model, whole.gradients, sum.gradients, tolerance)) << "tied head: " << tied_head;
  }
}

class ModelPasses : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelPasses, GradientsAccumulate) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch first = make_batch(config, samples, tokens, 1), second = make_batch(config, samples, tokens, 2);
  const Tensor a = run_pass(*model, first.input()).gradients;
  const Tensor b = run_pass(*model, second.input()).gradients;
  EXPECT_FALSE(same_to_rounding(*model, a, b)) << "the two batches are to differ";
  run_pass(*model, first.input());
  const Tensor both = run_pass(*model, second.input(), {.accumulate = true}).gradients;
  const Tensor expected = ops::tensor_of(ops::sum(ops::values_of(a), ops::values_of(b)), a.shape());
  EXPECT_TRUE(same_to_rounding(*model, both, expected));
}

TEST_P(ModelPasses, GradientScaleScalesGradientsAndNotTheLoss) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const Pass whole = run_pass(*model, batch.input());
  const Pass scaled = run_pass(*model, batch.input(), {.gradient_scale = 0.3f});
  EXPECT_EQ(scaled.loss, whole.loss);
  Array expected = ops::values_of(whole.gradients);
  for (double& value : expected) value *= static_cast<double>(0.3f);
  EXPECT_TRUE(same_to_rounding(*model, scaled.gradients, ops::tensor_of(expected, whole.gradients.shape())));
}

TEST_P(ModelPasses, RepeatBitForBit) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config), again = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const Pass a = run_pass(*model, batch.input()), b = run_pass(*again, batch.input());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_TRUE(ops::same_bits(a.gradients, b.gradients));
}

INSTANTIATE_TEST_SUITE_P(Models, ModelPasses, ::testing::ValuesIn(main_cases()), name_of_case);

}  // namespace
}  // namespace cohort::test
