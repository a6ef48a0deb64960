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

// A vocabulary for which the logits come in several chunks, the last of them smaller: their memory at the peak is less than that
// of all logits. Finite differences would take long; each sample alone, which fits one chunk, was compared with them above.
TEST(ModelGradientsOfManyLogits, AreTheSumOverSamplesOfOneChunk) {
  for (const bool tied_head : {true, false}) {
    ModelSection config = gpt2_config(tied_head);
    config.context = 40;
    config.vocabulary = 20011;
    const auto model = make_bent_model(config);
    const TestBatch batch = make_batch(config, 8, config.context);
    const Bytes all_logits = static_cast<Bytes>(batch.inputs.size()) * config.vocabulary * 4;
    Arena arena("test");
    const StepContext context{.activations = &arena, .loss_sum = ops::number_tensor(0.0)};
    model->loss(context, batch.input());
    const double loss = ops::number_of(context.loss_sum);
    ASSERT_LT(arena.peak_bytes(), all_logits) << "the vocabulary is too small for this test: the logits came in one chunk";

    const Pass whole = run_pass(*model, batch.input());
    EXPECT_EQ(whole.loss, loss);
    const ReferenceModel reference(config, by_name(model->parameters(), model->parameters().flat_values()));
    EXPECT_NEAR(loss, reference.loss(batch.input()), 1e-6 * loss);  // ops::sum_error, of errors that cancel over the rows
    model->parameters().zero_gradients();
    Pass sum;
    for (Count sample = 0; sample < batch.samples; ++sample) {
      sum = run_pass(*model, batch.input().slice(sample, sample + 1), {.accumulate = true});
    }
    EXPECT_TRUE(same_to_rounding(*model, whole.gradients, sum.gradients)) << "tied head: " << tied_head;
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
