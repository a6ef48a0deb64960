// The comparison of gradients can fail: each of these planted mistakes must be rejected.
#include <gtest/gtest.h>

#include "gradient_check.hpp"
#include "model_cases.hpp"

namespace cohort::test {
namespace {

Tensor with(const Tensor& gradients, Count begin, Count end, const std::function<float(float)>& change) {
  const Tensor changed = ops::copy_of(gradients);
  for (Count i = begin; i < end; ++i) changed.f32()[i] = change(changed.f32()[i]);
  return changed;
}

class PlantedMistake : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    const auto& [name, config, samples, tokens] = GetParam();
    model_ = make_bent_model(config);
    batch_ = make_batch(config, samples, tokens);
    gradients_ = run_pass(*model_, batch_.input()).gradients;
    check_ = std::make_unique<GradientCheck>(config, *model_, batch_.input(), 6);
    ASSERT_TRUE(check_->accepts(gradients_));
  }
  // The gradient of a key's bias is zero (gradient_scale_of says why): it cannot be missed.
  static bool is_zero(const Parameter& parameter) { return parameter.name.ends_with("attention.key.bias"); }

  std::unique_ptr<Model> model_;
  TestBatch batch_;
  Tensor gradients_;
  std::unique_ptr<GradientCheck> check_;
};

TEST_P(PlantedMistake, OneElementOffByOnePercent) {
  const ParameterRegistry& registry = model_->parameters();
  for (const auto& parameter : registry.all()) {
    if (is_zero(*parameter)) continue;
    const Count begin = parameter->offset;
    Count top = begin;
    for (Count i = begin; i < begin + parameter->elements(); ++i) {
      if (std::abs(gradients_.f32()[i]) > std::abs(gradients_.f32()[top])) top = i;
    }
    EXPECT_FALSE(check_->accepts(with(gradients_, top, top + 1, [](float g) { return 1.01f * g; }))) << parameter->name;
  }
}

TEST_P(PlantedMistake, GradientOfOneTensorMissing) {
  const ParameterRegistry& registry = model_->parameters();
  for (const auto& parameter : registry.all()) {
    if (is_zero(*parameter)) continue;
    const Count begin = parameter->offset;
    EXPECT_FALSE(check_->accepts(with(gradients_, begin, begin + parameter->elements(), [](float) { return 0.0f; })))
        << parameter->name;
  }
}

TEST_P(PlantedMistake, GradientCountedTwice) {
  const ParameterRegistry& registry = model_->parameters();
  for (const auto& parameter : registry.all()) {
    if (is_zero(*parameter)) continue;
    const Count begin = parameter->offset;
    EXPECT_FALSE(check_->accepts(with(gradients_, begin, begin + parameter->elements(), [](float g) { return 2.0f * g; })))
        << parameter->name;
  }
}

TEST_P(PlantedMistake, NotANumber) {
  const float nan = ops::kGarbage;
  EXPECT_FALSE(check_->accepts(with(gradients_, 0, gradients_.elements(), [=](float) { return nan; })));
  EXPECT_FALSE(same_to_rounding(*model_, with(gradients_, 3, 4, [=](float) { return nan; }), gradients_));
}

TEST_P(PlantedMistake, RoundingToleranceSeesAPartInTenThousand) {
  EXPECT_FALSE(
      same_to_rounding(*model_, with(gradients_, 0, gradients_.elements(), [](float g) { return 1.0001f * g; }), gradients_));
}

INSTANTIATE_TEST_SUITE_P(Models, PlantedMistake, ::testing::ValuesIn(main_cases()), name_of_case);

// A tied weight's gradient is the sum over its two uses. An untied model with equal weights gives the two parts: each of them
// alone must be rejected, their sum accepted.
TEST(PlantedMistakeOfATiedHead, OneUseForgotten) {
  for (const bool llama : {false, true}) {
    const ModelSection tied_config = llama ? llama_config(2, true) : gpt2_config(true);
    const ModelSection untied_config = llama ? llama_config(2, false) : gpt2_config(false);
    const auto tied = make_bent_model(tied_config);
    const auto untied = make_model(untied_config, 1, test_storage());
    for (const auto& parameter : tied->parameters().all()) {
      untied->parameters().find(parameter->name)->value.copy_from(parameter->value);
    }
    const Parameter& embedding = *tied->parameters().find("embedding.weight");
    Parameter& head = *untied->parameters().find("head.weight");
    head.value.copy_from(embedding.value);

    const TestBatch batch = make_batch(tied_config, 3, 6);
    const Tensor gradients = run_pass(*tied, batch.input()).gradients;
    run_pass(*untied, batch.input());
    const Array of_embedding = ops::values_of(untied->parameters().find("embedding.weight")->gradient);
    const Array of_head = ops::values_of(head.gradient);
    GradientCheck check(tied_config, *tied, batch.input());
    const auto with_embedding_gradient = [&](const Array& values) {
      const Tensor changed = ops::copy_of(gradients);
      const Count offset = embedding.offset;
      for (std::size_t i = 0; i < values.size(); ++i) changed.f32()[offset + i] = static_cast<float>(values[i]);
      return changed;
    };
    EXPECT_FALSE(check.accepts(with_embedding_gradient(of_embedding))) << tied_config.kind;
    EXPECT_FALSE(check.accepts(with_embedding_gradient(of_head))) << tied_config.kind;
    EXPECT_TRUE(check.accepts(with_embedding_gradient(ops::sum(of_embedding, of_head)))) << tied_config.kind;
  }
}

}  // namespace
}  // namespace cohort::test
