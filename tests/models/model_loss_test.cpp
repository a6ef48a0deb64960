// The loss and the logits of the models against the double-precision reference.
#include <cmath>

#include <gtest/gtest.h>

#include "model_cases.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

Count counted(const ModelInput& input) {
  Count n = 0;
  for (const std::int32_t target : input.targets) n += target == ops::kIgnoredTarget ? 0 : 1;
  return n;
}

// A logit, of size 1 to 5, passes through some ten ops that each contribute ops::sum_error, 2e-6 or so, with random signs.
constexpr double kLogitError = 1e-5;

class ModelLoss : public ::testing::TestWithParam<ModelCase> {};

// The loss of one target is a difference of logits; the error of the sum is at most that of one times their number.
TEST_P(ModelLoss, IsThatOfTheReference) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const ReferenceModel reference(config, by_name(model->parameters(), model->parameters().flat_values()));
  const double loss = run_pass(*model, batch.input()).loss;
  EXPECT_NEAR(loss, reference.loss(batch.input()), kLogitError * static_cast<double>(counted(batch.input())));
  EXPECT_GT(loss, 0.0);
}

TEST_P(ModelLoss, OfEvaluationHasTheBitsOfTheTrainingPass) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const double training = run_pass(*model, batch.input()).loss;
  EXPECT_EQ(run_loss(*model, batch.input()), training);
}

TEST_P(ModelLoss, LastLogitsAreThoseOfTheReference) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const ReferenceModel reference(config, by_name(model->parameters(), model->parameters().flat_values()));
  const Array expected = reference.last_logits(batch.input());
  EXPECT_TRUE(ops::close(run_last_logits(*model, batch.input()), expected, kLogitError));
  EXPECT_LT(largest(expected), 10.0);  // what kLogitError was made for
}

// The yardstick would notice: weights larger by one part in a hundred move the loss by more than the tolerance.
TEST_P(ModelLoss, ToleranceIsSmallEnoughToSeeAWeightMove) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  ReferenceModel reference(config, by_name(model->parameters(), model->parameters().flat_values()));
  const double before = reference.loss(batch.input());
  for (double& weight : reference.weights.at(config.kind == "mlp" ? "head.weight" : "norm.weight")) weight *= 1.01;
  EXPECT_GT(std::abs(reference.loss(batch.input()) - before), kLogitError * static_cast<double>(counted(batch.input())));
}

INSTANTIATE_TEST_SUITE_P(Models, ModelLoss, ::testing::ValuesIn(model_cases()), name_of_case);

class ModelRules : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelRules, NoCountedTargetMeansNoLossAndNoGradient) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  TestBatch batch = make_batch(config, samples, tokens);
  std::fill(batch.targets.begin(), batch.targets.end(), ops::kIgnoredTarget);
  const Pass pass = run_pass(*model, batch.input());
  EXPECT_EQ(pass.loss, 0.0);
  for (const float gradient : pass.gradients.span<float>()) ASSERT_EQ(gradient, 0.0f);
}

TEST_P(ModelRules, LossOfABatchIsTheSumOverItsSlices) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const ModelInput first = batch.input().slice(0, 1), rest = batch.input().slice(1, samples);
  EXPECT_EQ(first.samples, 1);
  EXPECT_EQ(rest.samples, samples - 1);
  EXPECT_EQ(rest.slots.front(), batch.slots[1]);
  EXPECT_EQ(first.targets.size() + rest.targets.size(), batch.targets.size());
  const double whole = run_loss(*model, batch.input());
  EXPECT_NEAR(run_loss(*model, first) + run_loss(*model, rest), whole, 1e-6 * whole);
}

TEST_P(ModelRules, LossLeavesTheGradientsAlone) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const Tensor before = run_pass(*model, batch.input()).gradients;
  run_loss(*model, batch.input());
  run_last_logits(*model, batch.input());
  EXPECT_TRUE(ops::same_bits(model->parameters().flat_gradients(), before));
}

TEST_P(ModelRules, TheLossIsAddedToWhatIsThere) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  const double once = run_loss(*model, batch.input());
  Arena arena("test", test_device());
  DeviceInputs inputs;
  const ModelInput input = inputs.put(batch.input());
  StepContext context = context_with(*model, arena);
  context.loss_sum = ops::number_tensor(100.0);
  context.training = true;
  Hooks none;
  model->forward(context, input, 1.0f, none);
  EXPECT_NEAR(ops::number_of(context.loss_sum), 100.0 + once, 1e-12 * 100.0);
  model->loss(context, input, none);
  EXPECT_NEAR(ops::number_of(context.loss_sum), 100.0 + 2.0 * once, 1e-12 * 100.0);
}

// For the search of the first layer whose output is not finite: each unit's output in order, whatever the pass.
TEST_P(ModelRules, EachUnitShowsItsOutput) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens);
  Arena arena("test", test_device());
  DeviceInputs inputs;
  std::vector<std::string> shown;
  StepContext context = context_with(*model, arena);
  context.training = true;
  context.inspect = [&](const std::string& unit, const Tensor& output) {
    shown.push_back(unit);
    EXPECT_EQ(output.shape().rows(), config.kind == "mlp" ? samples : samples * tokens) << unit;
    for (const double value : ops::values_of(output)) ASSERT_TRUE(std::isfinite(value)) << unit;
  };
  Hooks none;
  model->forward(context, inputs.put(batch.input()), 1.0f, none);
  std::vector<std::string> units;
  for (const Unit& unit : model->units()) units.push_back(unit.name);
  EXPECT_EQ(shown, units);
}

// The arena of the first pass is full of NaN (run_pass); a second pass in the same arena finds what the first one left there.
TEST_P(ModelRules, BitsDoNotDependOnWhatMemoryHeld) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, tokens), other = make_batch(config, samples, tokens, 9);
  const Pass expected = run_pass(*model, batch.input());
  Arena arena("test", test_device());
  DeviceInputs inputs;
  Hooks none;
  for (const TestBatch* b : {&other, &batch}) {
    const Arena::Scope scope(arena);
    model->parameters().zero_gradients();
    StepContext context = context_with(*model, arena);
    context.training = true;
    const ModelInput input = inputs.put(b->input());
    model->forward(context, input, 1.0f, none);
    model->backward(context, input, none);
    EXPECT_EQ(ops::number_of(context.loss_sum) == expected.loss, b == &batch);
  }
  EXPECT_TRUE(ops::same_bits(model->parameters().flat_gradients(), expected.gradients));
}

// A token sees itself and those before it: with another last token, the losses of the others stay as they were.
TEST_P(ModelRules, NoTokenSeesWhatFollows) {
  const auto& [name, config, samples, tokens] = GetParam();
  if (config.kind == "mlp") GTEST_SKIP() << "no tokens";
  const auto model = make_bent_model(config);
  TestBatch batch = make_batch(config, samples, tokens);
  for (Count sample = 0; sample < samples; ++sample) batch.targets[(sample + 1) * tokens - 1] = ops::kIgnoredTarget;
  const double before = run_loss(*model, batch.input());
  for (Count sample = 0; sample < samples; ++sample) {
    std::int32_t& last = batch.inputs[(sample + 1) * tokens - 1];
    last = (last + 1) % static_cast<std::int32_t>(config.vocabulary);
  }
  EXPECT_EQ(run_loss(*model, batch.input()), before);
}

// Positions beyond the table must not wrap around to its beginning.
TEST_P(ModelRules, SamplesLongerThanTheContextAreRefused) {
  const auto& [name, config, samples, tokens] = GetParam();
  if (config.kind == "mlp") GTEST_SKIP() << "no tokens";
  const auto model = make_bent_model(config);
  const TestBatch batch = make_batch(config, samples, config.context + 1);
  EXPECT_ERROR(run_loss(*model, batch.input()), ExitCode::internal, "7 tokens", "context of 6");
}

INSTANTIATE_TEST_SUITE_P(Models, ModelRules, ::testing::ValuesIn(main_cases()), name_of_case);

}  // namespace
}  // namespace cohort::test
