#include "train/generate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "models/model_problem.hpp"

namespace cohort::test {
namespace {

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
    if (section.kind == "qwen3") section.own["head_size"] = Count{8};
    section.context = 8;
    section.vocabulary = kRows;
    section.init_std = 0.5;  // so that the logits differ
    return make_model(section, 3, test_storage(compute));
  }
  std::vector<std::int32_t> text(const std::vector<std::int32_t>& prompt, GenerateOptions options) const {
    options.context = 8;
    if (options.vocabulary == 0) options.vocabulary = kRows;
    Hooks none;
    return generate(*model_, {&prompt, 1}, options, none).front();
  }
  // All texts of several prompts.
  std::vector<std::vector<std::int32_t>> texts(const std::vector<std::vector<std::int32_t>>& prompts,
                                               GenerateOptions options) const {
    options.context = 8;
    options.vocabulary = kRows;
    Hooks none;
    return generate(*model_, prompts, options, none);
  }
  // By a whole pass over what the model sees, for each token.
  std::vector<std::int32_t> text_without_cache(const std::vector<std::int32_t>& prompt, const GenerateOptions& options) const {
    std::vector<std::int32_t> tokens = prompt;
    const CounterRandom random(options.seed, RandomPurpose::sample);
    for (Count i = 0; i < options.tokens; ++i) {
      ModelInput input;
      input.samples = 1;
      input.inputs = std::span(tokens).last(std::min<std::size_t>(8, tokens.size()));
      const Tensor logits = run_last_logits(*model_, input);
      tokens.push_back(draw_token(logits.span<float>(), options.sampling, random.uniform(static_cast<std::uint64_t>(i))));
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
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
      const GenerateOptions options{.tokens = 60, .sampling = {.temperature = temperature, .top_k = top_k}};
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
        text({1, 2, 3}, {.tokens = 5, .sampling = {.temperature = temperature}});
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
  const auto first = text({1, 2, 3}, {.tokens = 40, .sampling = {.temperature = 1.0}, .seed = 5});
  EXPECT_EQ(first.size(), 40u);
  for (const std::int32_t token : first) EXPECT_TRUE(token >= 0 && token < 19) << token;
  EXPECT_EQ(text({1, 2, 3}, {.tokens = 40, .sampling = {.temperature = 1.0}, .seed = 5}), first);
  EXPECT_NE(text({1, 2, 3}, {.tokens = 40, .sampling = {.temperature = 1.0}, .seed = 6}), first);
  EXPECT_NE(text({3, 2, 1}, {.tokens = 40, .sampling = {.temperature = 1.0}, .seed = 5}), first);
  const auto fewer = text({1, 2, 3}, {.tokens = 10, .sampling = {.temperature = 1.0}, .seed = 5});
  EXPECT_EQ(fewer, std::vector<std::int32_t>(first.begin(), first.begin() + 10)) << "a longer text begins as the shorter";
}

TEST_P(Generate, SeesTheLastTokensOfALongPrompt) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 30; ++i) prompt.push_back(i % 19);
  const std::vector<std::int32_t> last(prompt.end() - 8, prompt.end());
  const GenerateOptions options{.tokens = 20, .sampling = {.temperature = 0.0}};
  EXPECT_EQ(text(prompt, options), text(last, options));
}

// Short and long prompts, within the context and beyond it; the likeliest tokens and draws.
TEST_P(Generate, GivesTheTokensOfWholePasses) {
  for (const std::vector<std::int32_t>& prompt :
       {std::vector<std::int32_t>{4}, {1, 2, 3}, {1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0, 8, 9}}) {
    for (const double temperature : {0.0, 1.0}) {
      const GenerateOptions options{.tokens = 20, .sampling = {.temperature = temperature}, .seed = 3};
      EXPECT_EQ(text(prompt, options), text_without_cache(prompt, options))
          << prompt.size() << " tokens, temperature " << temperature;
    }
  }
}

// Prompts of many lengths, more than there are slots: each text is what it is alone.
TEST_P(Generate, ATextDoesNotDependOnThoseBesideIt) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::int32_t p = 0; p < 7; ++p) {
    prompts.emplace_back();
    for (std::int32_t t = 0; t <= 2 * p; ++t) prompts.back().push_back((3 * p + t) % 19);
  }
  GenerateOptions options{.tokens = 12, .sampling = {.temperature = 1.0}, .seed = 9, .texts = 3};
  for (const Count at_once : {1, 2, 5, 100}) {
    options.at_once = at_once;
    const auto all = texts(prompts, options);
    ASSERT_EQ(all.size(), 21u);
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      const auto alone = texts({prompts[p]}, options);
      for (std::size_t t = 0; t < 3; ++t)
        EXPECT_EQ(all[3 * p + t], alone[t]) << "prompt " << p << ", text " << t << ", at once " << at_once;
    }
  }
}

TEST_P(Generate, TextsOfAPromptDiffer) {
  GenerateOptions options{.tokens = 12, .sampling = {.temperature = 1.0}, .seed = 9};
  const auto first = text({1, 2, 3}, options);
  options.texts = 3;
  const auto all = texts({{1, 2, 3}}, options);
  EXPECT_EQ(all[0], first) << "the first is the one that there is alone";
  EXPECT_NE(all[1], all[0]);
  EXPECT_NE(all[2], all[1]);
}

TEST_P(Generate, TellsOfEachTokenAsItComes) {
  std::vector<std::int32_t> told;
  Hooks none;
  const std::vector<std::vector<std::int32_t>> prompts{{1}};
  const GenerateOptions options{.vocabulary = kRows, .tokens = 12, .context = 8};
  const auto all = generate(*model_, prompts, options, none, [&](std::size_t, std::int32_t token) {
    told.push_back(token);
    return true;
  });
  EXPECT_EQ(told, all.front());
  EXPECT_TRUE(text({1}, {.tokens = 0}).empty());
}

// Who is told may end a text, and that one alone.
TEST_P(Generate, ATextEndsWhenNoMoreIsWanted) {
  const std::vector<std::vector<std::int32_t>> prompts{{1}, {2}, {3}};
  Hooks none;
  const GenerateOptions options{.vocabulary = kRows, .tokens = 12, .at_once = 2, .context = 8};
  std::vector<std::size_t> counts(3);
  const auto all = generate(*model_, prompts, options, none,
                            [&](std::size_t number, std::int32_t) { return ++counts[number] < 4 * number + 1; });
  EXPECT_EQ(all[0].size(), 1u);
  EXPECT_EQ(all[1].size(), 5u);
  EXPECT_EQ(all[2].size(), 9u);
}

TEST_P(Generate, NanOfOnePromptNamesIt) {
  set("embedding", std::numeric_limits<float>::quiet_NaN());  // of token 0
  try {
    texts({{1, 2}, {1, 0}}, {.tokens = 3});
    FAIL() << "text of NaN";
  } catch (const LogitsNotFinite& error) {
    // A tied head makes a NaN of every text's logits.
    EXPECT_NE(std::string(error.what()).find("token 1 of the text of prompt"), std::string::npos) << error.what();
  }
}

// The likeliest token of a model with logits this far apart is the same in bf16; later ones may part ways.
TEST_P(Generate, WorksIn16Bits) {
  const auto bf16 = make(DType::bf16);
  Hooks none;
  const std::vector<std::vector<std::int32_t>> prompts{{1, 2, 3}};
  const GenerateOptions options{.vocabulary = kRows, .tokens = 20, .sampling = {.temperature = 0.0}, .context = 8};
  const auto tokens = generate(*bf16, prompts, options, none).front();
  EXPECT_EQ(tokens.size(), 20u);
  EXPECT_EQ(tokens.front(), text({1, 2, 3}, options).front());
}

INSTANTIATE_TEST_SUITE_P(All, Generate, ::testing::Values("gpt2", "llama", "qwen3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::test
