#include "train/generate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/device_model.hpp"

namespace cohort::test {
namespace {

const std::vector<float> kHalves{std::log(0.2f), std::log(0.5f), std::log(0.3f)};  // probabilities 0.2, 0.5, 0.3

TEST(DrawToken, TakesTheLikeliestAtTemperatureZero) {
  for (const double uniform : {0.0, 0.5, 0.999}) EXPECT_EQ(draw_token(kHalves, 0.0, 0, uniform), 1);
  const std::vector<float> equal{1.0f, 3.0f, 3.0f};
  EXPECT_EQ(draw_token(equal, 0.0, 0, 0.9), 1) << "of equals the one with the lowest id";
}

// From the likeliest on: 0 to 0.5 is token 1, to 0.8 token 2, to 1 token 0.
TEST(DrawToken, DrawsByProbability) {
  const std::vector<std::pair<double, std::int32_t>> draws{{0.0, 1}, {0.49, 1}, {0.51, 2}, {0.79, 2}, {0.81, 0}, {1 - 1e-16, 0}};
  for (const auto& [uniform, token] : draws) EXPECT_EQ(draw_token(kHalves, 1.0, 0, uniform), token) << uniform;
}

TEST(DrawToken, TheTemperatureDividesTheLogits) {
  // Temperature 1/2 squares the probabilities: 0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38.
  EXPECT_EQ(draw_token(kHalves, 0.5, 0, 0.65), 1);
  EXPECT_EQ(draw_token(kHalves, 0.5, 0, 0.67), 2);
  EXPECT_EQ(draw_token(kHalves, 0.5, 0, 0.90), 0);
  EXPECT_EQ(draw_token(kHalves, 1000.0, 0, 0.34), 2) << "all alike";
}

TEST(DrawToken, TopKLeavesTheKLikeliest) {
  for (const double uniform : {0.0, 0.5, 1 - 1e-16}) EXPECT_EQ(draw_token(kHalves, 1.0, 1, uniform), 1);
  EXPECT_EQ(draw_token(kHalves, 1.0, 2, 0.62), 1) << "0.5 / 0.8";
  EXPECT_EQ(draw_token(kHalves, 1.0, 2, 0.63), 2);
  EXPECT_EQ(draw_token(kHalves, 1.0, 2, 1 - 1e-16), 2);
  for (const Count all : {0, 3, 99}) EXPECT_EQ(draw_token(kHalves, 1.0, all, 0.9), 0);
}

TEST(DrawToken, LargeLogitsDoNotOverflow) {
  const std::vector<float> large{1e4f, 1e4f, -1e4f};
  EXPECT_EQ(draw_token(large, 1.0, 0, 0.4), 0);
  EXPECT_EQ(draw_token(large, 1.0, 0, 0.6), 1);
}

class Generate : public ::testing::TestWithParam<const char*> {
 protected:
  Generate() : model_(make(DType::f32)) {}
  static std::unique_ptr<Model> make(DType compute) {
    ModelSection section;
    section.kind = GetParam();
    section.layers = 2;
    section.width = 16;
    section.heads = section.kv_heads = 2;
    section.ffn_width = 32;
    section.context = 8;
    section.vocabulary = kRows;
    section.init_std = 0.5;  // so that the logits differ
    return make_model(section, 3, test_storage(compute));
  }
  std::vector<std::int32_t> text(const std::vector<std::int32_t>& prompt, GenerateOptions options) const {
    options.context = 8;
    if (options.vocabulary == 0) options.vocabulary = kRows;
    Hooks none;
    return generate(*model_, prompt, options, none);
  }

  // The first element of the first parameter of a unit becomes `value`.
  void set(const std::string& unit, float value) {
    for (const auto& parameter : model_->parameters().all()) {
      if (!parameter->name.starts_with(unit + ".")) continue;
      Tensor number = Tensor::zeros("test", {1});
      *number.f32() = value;
      Tensor::wrap(parameter->value.raw(), {1}, DType::f32, parameter->value.device()).copy_from(number);
      return;
    }
    FAIL() << "no unit " << unit;
  }

  static constexpr Count kRows = 19;
  std::unique_ptr<Model> model_;
};

// A model may have more rows than the tokenizer has tokens: what is drawn has a text, whatever the row's logit.
TEST_P(Generate, RowsWithoutTextAreNeverDrawn) {
  for (const double temperature : {0.0, 0.8, 1000.0}) {
    for (const Count top_k : {0, 1, 4, 100}) {
      const GenerateOptions options{.tokens = 60, .temperature = temperature, .top_k = top_k};
      GenerateOptions five = options;
      five.vocabulary = 5;
      std::int32_t largest = 0;
      for (const std::int32_t token : text({1, 2, 3}, five)) {
        ASSERT_TRUE(token >= 0 && token < 5) << token << " at temperature " << temperature << ", top_k " << top_k;
        largest = std::max(largest, token);
      }
      if (temperature == 1000.0 && top_k == 0) {
        EXPECT_EQ(largest, 4) << "all that have a text are";
        const auto all = text({1, 2, 3}, options);
        EXPECT_GE(*std::max_element(all.begin(), all.end()), 5) << "the model likes other rows as well";
      }
    }
  }
}

TEST_P(Generate, NoTextIsMadeOfNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float value : {nan, infinity}) {
    model_ = make(DType::f32);
    set("blocks.1", value);
    for (const double temperature : {0.0, 0.8}) {
      try {
        text({1, 2, 3}, {.tokens = 5, .temperature = temperature});
        FAIL() << "text of " << value;
      } catch (const LogitsNotFinite& error) {
        EXPECT_EQ(error.code(), ExitCode::training);
        EXPECT_EQ(error.unit, "blocks.1");
        EXPECT_NE(std::string(error.what()).find("blocks.1"), std::string::npos) << error.what();
      }
    }
  }
}

TEST_P(Generate, IsAFunctionOfSeedAndPrompt) {
  const auto first = text({1, 2, 3}, {.tokens = 40, .temperature = 1.0, .seed = 5});
  EXPECT_EQ(first.size(), 40u);
  for (const std::int32_t token : first) EXPECT_TRUE(token >= 0 && token < 19) << token;
  EXPECT_EQ(text({1, 2, 3}, {.tokens = 40, .temperature = 1.0, .seed = 5}), first);
  EXPECT_NE(text({1, 2, 3}, {.tokens = 40, .temperature = 1.0, .seed = 6}), first);
  EXPECT_NE(text({3, 2, 1}, {.tokens = 40, .temperature = 1.0, .seed = 5}), first);
  const auto fewer = text({1, 2, 3}, {.tokens = 10, .temperature = 1.0, .seed = 5});
  EXPECT_EQ(fewer, std::vector<std::int32_t>(first.begin(), first.begin() + 10)) << "a longer text begins as the shorter";
}

TEST_P(Generate, SeesTheLastTokensOfALongPrompt) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 30; ++i) prompt.push_back(i % 19);
  const std::vector<std::int32_t> last(prompt.end() - 8, prompt.end());
  const GenerateOptions options{.tokens = 20, .temperature = 0.0};
  EXPECT_EQ(text(prompt, options), text(last, options));
}

TEST_P(Generate, TellsOfEachTokenAsItComes) {
  std::vector<std::int32_t> told;
  Hooks none;
  const auto all = generate(*model_, {1}, {.vocabulary = kRows, .tokens = 12, .context = 8}, none,
                            [&](std::int32_t token) { told.push_back(token); });
  EXPECT_EQ(told, all);
  EXPECT_TRUE(text({1}, {.tokens = 0}).empty());
}

// The likeliest token of a model with logits this far apart is the same in bf16; later ones may part ways.
TEST_P(Generate, WorksIn16Bits) {
  const auto bf16 = make(DType::bf16);
  Hooks none;
  const auto tokens = generate(*bf16, {1, 2, 3}, {.vocabulary = kRows, .tokens = 20, .temperature = 0.0, .context = 8}, none);
  EXPECT_EQ(tokens.size(), 20u);
  EXPECT_EQ(tokens.front(), text({1, 2, 3}, {.tokens = 20, .temperature = 0.0}).front());
}

INSTANTIATE_TEST_SUITE_P(All, Generate, ::testing::Values("gpt2", "llama"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::test
