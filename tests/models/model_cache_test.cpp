// Whole models with a cache of keys and values: the logits of each token are those of a pass over the whole text.
#include <gtest/gtest.h>

#include "models/model_problem.hpp"

namespace cohort::test {
namespace {

using ops::Array;

// A text as a model with a cache reads it.
class CachedText {
 public:
  CachedText(Model& model, Count slots, Count tokens)
      : model_(model), cache_(model.make_cache(slots, tokens)), arena_("test", test_device()) {}

  KvCache& cache() { return *cache_; }
  Array prompt(std::int32_t slot, const std::vector<std::int32_t>& tokens) {
    cache_->begin_prompt(slot, static_cast<Count>(tokens.size()));
    return run(tokens, 1, false);
  }
  Array step(const std::vector<std::int32_t>& slots, const std::vector<std::int32_t>& positions,
             const std::vector<std::int32_t>& tokens) {
    cache_->begin_tokens(slots, positions);
    return run(tokens, static_cast<Count>(tokens.size()), true);
  }

 private:
  Array run(const std::vector<std::int32_t>& tokens, Count samples, bool row_by_row) {
    const Tensor logits = ops::filled({samples, model_.classes()}, ops::kGarbage, DeviceKind::cpu);
    StepContext context = context_with(model_, arena_);
    context.exec.row_by_row = row_by_row;
    context.cache = cache_.get();
    ModelInput input;
    input.samples = samples;
    input.inputs = tokens;
    DeviceInputs inputs;
    Hooks none;
    model_.last_logits(context, inputs.put(input), logits, none);
    return ops::values_of(logits);
  }

  Model& model_;
  std::unique_ptr<KvCache> cache_;
  Arena arena_;
};

Array whole(Model& model, const std::vector<std::int32_t>& tokens, std::size_t first) {
  ModelInput input;
  input.samples = 1;
  input.inputs = std::span(tokens).first(first);
  return ops::values_of(run_last_logits(model, input));
}

std::vector<std::int32_t> random_text(Count tokens, Count vocabulary, std::uint32_t stream) {
  return ops::random_indices(tokens, vocabulary, stream);
}

double largest_of(const Array& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class ModelCache : public ::testing::TestWithParam<const char*> {
 protected:
  ModelCache() : section_(wide_config(GetParam())) {
    section_.init_std = 0.1;  // so that attention is far from uniform
    model_ = make_model(section_, 7, test_storage(DType::f32));
  }
  ModelSection section_;
  std::unique_ptr<Model> model_;
};

// Both are fp32 passes of the same formulas in another order of summing, so they differ by a few roundings of each of some dozen
// operations along the depth, relative to the largest logit.
constexpr double kSameFormula = 64.0 * ops::kEps;

TEST_P(ModelCache, LogitsAreThoseOfTheWholeText) {
  const auto text = random_text(section_.context, section_.vocabulary, 1);
  for (const std::size_t prompt : {std::size_t{1}, std::size_t{5}, text.size() - 1}) {
    CachedText cached(*model_, 2, section_.context);
    const Array first = whole(*model_, text, prompt);
    const Array of_prompt = cached.prompt(1, {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(prompt)});
    EXPECT_TRUE(ops::close(of_prompt, first, Array{kSameFormula * largest_of(first)}));
    for (std::size_t t = prompt; t < text.size(); ++t) {
      const Array expected = whole(*model_, text, t + 1);
      const Array actual = cached.step({1}, {static_cast<std::int32_t>(t)}, {text[t]});
      EXPECT_TRUE(ops::close(actual, expected, Array{kSameFormula * largest_of(expected)})) << "token " << t;
    }
  }
}

// What else is in the pass is no matter, not even for a bit.
TEST_P(ModelCache, TextsDoNotSeeEachOther) {
  const auto a = random_text(20, section_.vocabulary, 1), b = random_text(20, section_.vocabulary, 2);
  CachedText alone(*model_, 1, 32), together(*model_, 3, 32);
  alone.prompt(0, {a.begin(), a.begin() + 4});
  together.prompt(2, {a.begin(), a.begin() + 4});
  together.prompt(0, {b.begin(), b.begin() + 9});
  for (std::int32_t t = 4; t < 15; ++t) {
    const Array expected = alone.step({0}, {t}, {a[static_cast<std::size_t>(t)]});
    const Array both = together.step({0, 2}, {t + 5, t}, {b[static_cast<std::size_t>(t + 5)], a[static_cast<std::size_t>(t)]});
    EXPECT_EQ(Array(both.begin() + static_cast<std::ptrdiff_t>(expected.size()), both.end()), expected);
  }
}

TEST_P(ModelCache, ACopiedSlotGoesItsOwnWay) {
  const auto text = random_text(12, section_.vocabulary, 1), other = random_text(12, section_.vocabulary, 2);
  CachedText cached(*model_, 2, 32), alone(*model_, 1, 32);
  cached.prompt(0, {text.begin(), text.begin() + 6});
  cached.cache().copy_slot(1, 0);
  alone.prompt(0, {text.begin(), text.begin() + 6});
  for (std::int32_t t = 6; t < 12; ++t) {
    cached.step({0}, {t}, {other[static_cast<std::size_t>(t)]});
    const std::int32_t token = text[static_cast<std::size_t>(t)];
    EXPECT_EQ(cached.step({1}, {t}, {token}), alone.step({0}, {t}, {token}));
  }
}

TEST_P(ModelCache, WorksIn16Bits) {
  const auto narrow = make_model(section_, 7, test_storage(DType::bf16));
  const auto text = random_text(section_.context, section_.vocabulary, 1);
  CachedText cached(*narrow, 1, section_.context);
  cached.prompt(0, {text.begin(), text.begin() + 3});
  for (std::size_t t = 3; t < text.size(); ++t) {
    const Array expected = whole(*narrow, text, t + 1);
    const Array actual = cached.step({0}, {static_cast<std::int32_t>(t)}, {text[t]});
    // A few of the dozens of roundings to 8 bits on the way differ, those of sums that are made in another order.
    EXPECT_TRUE(ops::close(actual, expected, Array{0.05 * largest_of(expected)})) << "token " << t;
  }
}

TEST(ModelCacheRules, PlacesOutsideAreABug) {
  const auto model = make_model(gpt2_config(), 1, test_storage(DType::f32));
  const auto cache = model->make_cache(2, 100);
  EXPECT_EQ(cache->sizes().tokens, gpt2_config().context) << "no longer than the model's context";
  EXPECT_THROW(cache->begin_prompt(0, gpt2_config().context + 1), Error);
  EXPECT_THROW(cache->begin_prompt(2, 1), Error);
  EXPECT_EQ(make_model(mlp_config(), 1, test_storage(DType::f32))->make_cache(1, 1), nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, ModelCache, ::testing::Values("gpt2", "llama", "qwen3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::test
