// Names and layouts. That they are transformers' is for round_trip_test.py to show; here, what is where, the way back, and what
// is refused.
#include <gtest/gtest.h>

#include "interchange/hf_layout.hpp"
#include "safetensors_fixture.hpp"

namespace cohort::test {
namespace {

ModelSection small_model(const std::string& kind, bool tied) {
  ModelSection model;
  model.kind = kind;
  model.layers = 2;
  model.width = 4;
  model.heads = 2;
  model.kv_heads = kind == "llama" ? 1 : 2;
  model.ffn_width = 6;
  model.context = 3;
  model.vocabulary = 5;
  model.tied_head = tied;
  return model;
}

MemorySource parameters(const ModelSection& model) {
  MemorySource source;
  for (const TensorInfo& tensor : parameters_of(model)) source.add(tensor.name, tensor.shape);
  return source;
}

MemorySource copy_of(const TensorSource& source, const std::string& without_prefix = "") {
  MemorySource copy;
  std::vector<float> values;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    source.read(i, values);
    std::string name = source.tensors()[i].name;
    if (!without_prefix.empty() && name.starts_with(without_prefix)) name = name.substr(without_prefix.size());
    copy.add(name, source.tensors()[i].shape, values);
  }
  return copy;
}

TEST(HfLayout, Gpt2IsTransposedAndFused) {
  const ModelSection model = small_model("gpt2", true);
  const MemorySource ours = parameters(model);
  const auto theirs = as_hugging_face(ours, model, "test");
  const std::vector<float> fused = read_by_name(*theirs, "transformer.h.1.attn.c_attn.weight");  // [4, 12]
  const char* parts[] = {"query", "key", "value"};
  for (std::size_t part = 0; part < 3; ++part) {
    const auto weight = read_by_name(ours, fmt::format("blocks.1.attention.{}.weight", parts[part]));  // [4, 4]
    for (std::size_t out = 0; out < 4; ++out) {
      for (std::size_t in = 0; in < 4; ++in) EXPECT_EQ(fused[in * 12 + part * 4 + out], weight[out * 4 + in]);
    }
    const auto bias = read_by_name(*theirs, "transformer.h.1.attn.c_attn.bias");
    EXPECT_EQ(std::vector<float>(bias.begin() + static_cast<std::ptrdiff_t>(part * 4),
                                 bias.begin() + static_cast<std::ptrdiff_t>(part * 4 + 4)),
              read_by_name(ours, fmt::format("blocks.1.attention.{}.bias", parts[part])));
  }
  EXPECT_EQ(read_by_name(*theirs, "transformer.wte.weight"), read_by_name(ours, "embedding.weight"));
  EXPECT_TRUE(read_by_name(*theirs, "lm_head.weight").empty());
}

TEST(HfLayout, LlamaIsAsItIs) {
  const ModelSection model = small_model("llama", false);
  const MemorySource ours = parameters(model);
  const auto theirs = as_hugging_face(ours, model, "test");
  EXPECT_EQ(theirs->tensors().size(), ours.tensors().size());
  EXPECT_EQ(read_by_name(*theirs, "model.layers.1.self_attn.k_proj.weight"), read_by_name(ours, "blocks.1.attention.key.weight"));
  EXPECT_EQ(read_by_name(*theirs, "lm_head.weight"), read_by_name(ours, "head.weight"));
}

TEST(HfLayout, ThereAndBack) {
  for (const char* kind : {"gpt2", "llama"}) {
    for (const bool tied : {false, true}) {
      const ModelSection model = small_model(kind, tied);
      const MemorySource ours = parameters(model);
      const auto theirs = as_hugging_face(ours, model, "test");
      const MemorySource bare = copy_of(*theirs, kind == std::string("gpt2") ? "transformer." : "model.");
      for (const TensorSource* form : std::initializer_list<const TensorSource*>{theirs.get(), &bare}) {
        const auto back = as_cohort(*form, model, "test");
        ASSERT_EQ(back->tensors().size(), ours.tensors().size());
        for (std::size_t i = ours.tensors().size(); i-- > 0;) {  // not in the order in which one tensor serves several
          std::vector<float> values;
          back->read(i, values);
          EXPECT_EQ(back->tensors()[i].name, ours.tensors()[i].name);
          EXPECT_EQ(values, ours.values_[i]) << ours.tensors()[i].name;
        }
      }
    }
  }
}

TEST(HfLayout, WhatIsNotTheModelIsNamed) {
  const ModelSection model = small_model("llama", false);
  const MemorySource ours = parameters(model);
  const MemorySource good = copy_of(*as_hugging_face(ours, model, "test"));
  MemorySource bad = good;
  bad.tensors_[3].name = "model.layers.0.self_attn.rotten.weight";
  EXPECT_ERROR(as_cohort(bad, model, "folder"), ExitCode::checkpoint, "folder", "missing: model.layers.0.self_attn.k_proj.weight",
               "extra: model.layers.0.self_attn.rotten.weight");
  bad = good;
  bad.tensors_[0].shape = {4, 5};
  EXPECT_ERROR(as_cohort(bad, model, "folder"), ExitCode::checkpoint, "model.embed_tokens.weight is [4, 5] instead of [5, 4]");
  bad = good;
  bad.add("score.weight", {2, 4});
  EXPECT_ERROR(as_cohort(bad, model, "folder"), ExitCode::checkpoint, "extra: score.weight");
  MemorySource damaged = ours;
  damaged.tensors_.pop_back();
  EXPECT_ERROR(as_hugging_face(damaged, model, "folder"), ExitCode::checkpoint, "missing: head.weight");
}

TEST(HfLayout, BuffersOfOlderVersionsAreLeftOut) {
  const ModelSection model = small_model("gpt2", true);
  const MemorySource ours = parameters(model);
  MemorySource theirs = copy_of(*as_hugging_face(ours, model, "test"));
  theirs.add("transformer.h.0.attn.bias", {1, 1, 3, 3});
  theirs.add("transformer.h.0.attn.masked_bias", {});
  EXPECT_EQ(read_by_name(*as_cohort(theirs, model, "test"), "norm.bias"), read_by_name(ours, "norm.bias"));
}

TEST(HfLayout, HeadOfATiedModel) {
  const ModelSection model = small_model("gpt2", true);
  const MemorySource ours = parameters(model);
  MemorySource theirs = copy_of(*as_hugging_face(ours, model, "test"));
  theirs.add("lm_head.weight", {5, 4}, read_by_name(ours, "embedding.weight"));
  EXPECT_EQ(as_cohort(theirs, model, "test")->tensors().size(), ours.tensors().size());
  theirs.values_.back()[7] += 1.0f;
  EXPECT_ERROR(as_cohort(theirs, model, "folder"), ExitCode::checkpoint, "lm_head.weight differs from transformer.wte.weight");
}

}  // namespace
}  // namespace cohort::test
