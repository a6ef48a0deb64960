// Dropout masks and activation checkpointing, as seen from the whole model.
#include <cmath>

#include <gtest/gtest.h>

#include "gradient_check.hpp"
#include "model_cases.hpp"

namespace cohort::test {
namespace {

ModelSection dropout_config() {
  ModelSection config = gpt2_config();
  config.dropout = 0.3;
  return config;
}

// A batch of four whose samples lie anywhere in the global batch.
TestBatch scattered_batch() {
  TestBatch batch = make_batch(dropout_config(), 4, 6);
  batch.slots = {5, 2, 9, 0};
  return batch;
}

TEST(ModelDropout, MasksBelongToSlotsNotToMicroBatches) {
  const auto model = make_bent_model(dropout_config());
  const TestBatch batch = scattered_batch();
  const Pass whole = run_pass(*model, batch.input());
  const Pass first = run_pass(*model, batch.input().slice(0, 2));
  const Pass both = run_pass(*model, batch.input().slice(2, 4), {.accumulate = true});
  EXPECT_NEAR(first.loss + both.loss, whole.loss, 1e-6 * whole.loss);
  EXPECT_TRUE(same_to_rounding(*model, both.gradients, whole.gradients));
}

// The mistake that the test above is there for: every micro-batch counts its samples from 0.
TEST(ModelDropout, MasksOfSlotsCountedFromZeroAreOthers) {
  const auto model = make_bent_model(dropout_config());
  TestBatch batch = scattered_batch();
  const Pass whole = run_pass(*model, batch.input());
  batch.slots = {0, 1, 0, 1};
  run_pass(*model, batch.input().slice(0, 2));
  const Pass both = run_pass(*model, batch.input().slice(2, 4), {.accumulate = true});
  EXPECT_FALSE(same_to_rounding(*model, both.gradients, whole.gradients, 1e-2));
}

TEST(ModelDropout, MasksDifferByStepSeedAndSlotAndOtherwiseRepeat) {
  const auto model = make_bent_model(dropout_config());
  TestBatch batch = scattered_batch();
  const Pass base = run_pass(*model, batch.input());
  const Pass same = run_pass(*model, batch.input());
  EXPECT_EQ(same.loss, base.loss);
  EXPECT_TRUE(ops::same_bits(same.gradients, base.gradients));
  EXPECT_NE(run_pass(*model, batch.input(), {.step = 1}).loss, base.loss);
  EXPECT_NE(run_pass(*model, batch.input(), {.seed = 6}).loss, base.loss);
  batch.slots[0] = 6;
  EXPECT_NE(run_pass(*model, batch.input()).loss, base.loss);
}

TEST(ModelDropout, EvaluationDropsNothing) {
  const TestBatch batch = scattered_batch();
  const auto with_dropout = make_bent_model(dropout_config()), without = make_bent_model(gpt2_config());
  EXPECT_EQ(run_loss(*with_dropout, batch.input()), run_loss(*without, batch.input()));
  EXPECT_TRUE(ops::same_bits(run_last_logits(*with_dropout, batch.input()), run_last_logits(*without, batch.input())));
  EXPECT_NE(run_pass(*with_dropout, batch.input()).loss, run_pass(*without, batch.input()).loss);
  TestBatch no_slots = batch;  // as in evaluation, where no mask needs them
  no_slots.slots.clear();
  EXPECT_EQ(run_loss(*with_dropout, no_slots.input()), run_loss(*without, batch.input()));
}

// Backward must apply the masks that forward applied. The loss with its masks is a function like any other: along a tensor's
// normalised gradient g / |g| it rises by |g| for each unit of length. In fp32 the step is coarse (0.01), which leaves 3 % for
// curvature, and 2e-5 for the rounding of two losses of about 60. Masks that differ would leave half of the gradient or so.
TEST(ModelDropout, BackwardAppliesTheMasksOfForward) {
  constexpr float kStep = 0.01f;
  const auto model = make_bent_model(dropout_config());
  const TestBatch batch = scattered_batch();
  const Tensor gradients = run_pass(*model, batch.input()).gradients;
  for (const auto& parameter : model->parameters().all()) {
    if (parameter->name.ends_with("attention.key.bias")) continue;  // zero, see gradient_scale_of
    const Tensor before = ops::copy_of(parameter->value);
    const Array values = ops::values_of(before);
    const float* gradient = gradients.f32() + parameter->offset;
    const double norm =
        std::sqrt(ops::dot(Array(gradient, gradient + parameter->elements()), Array(gradient, gradient + parameter->elements())));
    double loss[2] = {};
    for (const int side : {0, 1}) {
      const float factor = (side == 0 ? -kStep : kStep) / static_cast<float>(norm);
      Array moved = values;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<double>(factor * gradient[i]);
      parameter->value.copy_from(ops::tensor_of(moved, before.shape()));
      loss[side] = run_pass(*model, batch.input()).loss;
    }
    parameter->value.copy_from(before);
    const double expected = 2.0 * static_cast<double>(kStep) * norm;
    EXPECT_NEAR(loss[1] - loss[0], expected, 0.03 * expected + 2e-5) << parameter->name;
  }
}

struct CheckpointingCase {
  const char* name;
  ModelSection config;
};

TEST(ModelCheckpointing, HasTheSameBits) {
  const CheckpointingCase cases[] = {
      {"gpt2", gpt2_config()},   {"gpt2 untied", gpt2_config(false)},      {"gpt2 with dropout", dropout_config()},
      {"llama", llama_config()}, {"llama untied", llama_config(1, false)}, {"qwen3", qwen3_config()}};
  for (const auto& [name, config] : cases) {
    TestBatch batch = make_batch(config, 4, 6);
    batch.slots = {5, 2, 9, 0};
    const Pass expected = run_pass(*make_bent_model(config), batch.input(), {.step = 3});
    for (const char* choice : {"selective", "full"}) {
      ModelSection checkpointing = config;
      checkpointing.activation_checkpointing = choice;
      const Pass pass = run_pass(*make_bent_model(checkpointing), batch.input(), {.step = 3});
      EXPECT_EQ(pass.loss, expected.loss) << name << ", " << choice;
      EXPECT_TRUE(ops::same_bits(pass.gradients, expected.gradients)) << name << ", " << choice;
    }
  }
}

}  // namespace
}  // namespace cohort::test
