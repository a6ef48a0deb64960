// Decoders in 16 bits against themselves in fp32, with dropout and for heads of a size that every device takes in 16 bits. Not
// the mlp: ReLU's slope jumps at 0, and where a rounding crosses it the gradient loses or gains a whole term.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "gradient_check.hpp"
#include "tensor/convert.hpp"

namespace cohort::test {
namespace {

ModelSection config_of(const std::string& kind, double dropout) {
  ModelSection config = wide_config(kind);
  config.dropout = dropout;
  return config;
}

// Two models of the same weights, which are exact in 16 bits.
struct Pair {
  Pair(const ModelSection& config, DType type) : narrow(make_bent_model(config, type)), fp32(make_bent_model(config)) {
    const ParameterRegistry& parameters = narrow->parameters();
    convert(parameters.flat_values(), parameters.flat_compute());
    fp32->parameters().flat_values().copy_from(parameters.flat_values());
  }
  std::unique_ptr<Model> narrow, fp32;
};

Count counted(const TestBatch& batch) {
  return std::count_if(batch.targets.begin(), batch.targets.end(), [](auto target) { return target != ops::kIgnoredTarget; });
}

::testing::AssertionResult close_in_16_bits(const Model& model, const Pass& narrow, const Pass& fp32) {
  const Rounding rounding(model.storage().compute);
  const Weights actual = by_name(model.parameters(), narrow.gradients), expected = by_name(model.parameters(), fp32.gradients);
  for (const auto& [name, values] : expected) {
    const double tolerance = rounding.gradient * gradient_scale_of(model, expected, name, rounding.of_unit);
    const auto result = ops::close(actual.at(name), values, Array{tolerance});
    if (!result) return ::testing::AssertionFailure() << name << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

class ModelIn16Bits : public ::testing::TestWithParam<std::tuple<const char*, double, DType>> {
 protected:
  ModelSection config() const { return config_of(std::get<0>(GetParam()), std::get<1>(GetParam())); }
  DType type() const { return std::get<2>(GetParam()); }
  TestBatch batch() const { return make_batch(config(), 4, config().context); }
};

TEST_P(ModelIn16Bits, IsThatOfFp32ButForRounding) {
  const Pair models(config(), type());
  const TestBatch b = batch();
  const Array logits = ops::values_of(run_last_logits(*models.fp32, b.input()));
  const Rounding rounding(type());
  EXPECT_TRUE(ops::close(run_last_logits(*models.narrow, b.input()), logits, rounding.logit * largest(logits)));
  // A power of two, so that it is exact: about one part for each target, as in training.
  const float scale = 0x1p-6f;
  const Pass narrow = run_pass(*models.narrow, b.input(), {.gradient_scale = scale}),
             fp32 = run_pass(*models.fp32, b.input(), {.gradient_scale = scale});
  const Count targets = counted(b);
  EXPECT_NEAR(narrow.loss, fp32.loss, static_cast<double>(targets) * rounding.loss(targets) * largest(logits));
  EXPECT_NE(narrow.loss, fp32.loss);
  EXPECT_TRUE(close_in_16_bits(*models.narrow, narrow, fp32));
  // The comparison can fail.
  Pass doubled = narrow;
  doubled.gradients = run_pass(*models.narrow, b.input(), {.gradient_scale = scale, .accumulate = true}).gradients;
  EXPECT_FALSE(close_in_16_bits(*models.narrow, doubled, fp32));
}

INSTANTIATE_TEST_SUITE_P(Models, ModelIn16Bits,
                         ::testing::Values(std::tuple{"gpt2", 0.0, DType::bf16}, std::tuple{"gpt2", 0.2, DType::bf16},
                                           std::tuple{"llama", 0.0, DType::bf16}, std::tuple{"gpt2", 0.0, DType::f16},
                                           std::tuple{"gpt2", 0.2, DType::f16}, std::tuple{"llama", 0.0, DType::f16}),
                         [](const auto& instance) {
                           return fmt::format("{}_{}{}", std::get<0>(instance.param), name_of(std::get<2>(instance.param)),
                                              std::get<1>(instance.param) > 0.0 ? "_dropout" : "");
                         });

}  // namespace
}  // namespace cohort::test
