// Passes over new tokens that are recorded on a GPU and launched again: what they give is what the same pass gives that is not.
#include "train/cached_passes.hpp"

#include <gtest/gtest.h>

#include "models/model_problem.hpp"

namespace cohort::test {
namespace {

constexpr Count kTokens = 300;  // more than two parts of the keys of cached attention

class CachedPassesOf : public ::testing::TestWithParam<const char*> {
 protected:
  CachedPassesOf() {
    ModelSection section;
    section.kind = GetParam();
    section.layers = 2;
    section.width = 16;
    section.heads = section.kv_heads = 2;
    section.ffn_width = 32;
    if (section.kind == "qwen3") section.own["head_size"] = Count{8};
    section.context = kTokens;
    section.vocabulary = 19;
    section.init_std = 0.5;
    model_ = make_model(section, 3, test_storage(DType::f32));
  }
  std::int32_t token_at(Count slot, Count position) const { return static_cast<std::int32_t>((7 * slot + 3 * position) % 19); }
  std::vector<float> step(CachedPasses& passes, const std::vector<Count>& slots, Count position) const {
    std::vector<CachedPasses::Row> rows;
    for (const Count slot : slots) rows.push_back({slot, position + slot, token_at(slot, position)});
    const std::span<const float> logits = passes.run_tokens(rows);
    return {logits.begin(), logits.end()};
  }
  std::unique_ptr<Model> model_;
};

TEST_P(CachedPassesOf, RecordedOnesGiveTheSameBits) {
  struct : Hooks {
  } acting;  // no bare Hooks: whoever has one may need to be asked at each layer, so nothing is recorded
  Hooks none;
  CachedPasses eager(*model_, 3, kTokens, ops::Kernels::tuned, acting), recorded(*model_, 3, kTokens, ops::Kernels::tuned, none);
  for (CachedPasses* passes : {&eager, &recorded}) {
    for (Count slot = 0; slot < 3; ++slot)
      passes->run_prompt(slot, std::vector<std::int32_t>(static_cast<std::size_t>(100 + slot), 5));
  }
  // Texts come and go, and the longest grows over the borders of parts, at 128 and at 256.
  for (Count position = 100; position < kTokens - 2; ++position) {
    const std::vector<Count> slots = position % 40 < 30 ? std::vector<Count>{0, 1, 2} : std::vector<Count>{2};
    EXPECT_EQ(step(recorded, slots, position), step(eager, slots, position)) << position;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CachedPassesOf, ::testing::Values("gpt2", "llama", "qwen3"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace cohort::test
