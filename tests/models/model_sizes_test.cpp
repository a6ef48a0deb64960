// Counts: parameters, operations, memory. And the initial values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "config/model_rules.hpp"
#include "model_cases.hpp"
#include "models/decoder.hpp"

namespace cohort::test {
namespace {

// The sizes of the smallest published GPT-2.
ModelSection gpt2_small() {
  ModelSection config;
  config.kind = "gpt2";
  config.layers = 12;
  config.width = 768;
  config.heads = config.kv_heads = 12;
  config.ffn_width = 3072;
  config.context = 1024;
  config.vocabulary = 50257;
  return config;
}

// Which of 12 layers keep all, as a word.
std::string whole_layers(Count checkpointed, bool offload) {
  ModelSection config = gpt2_small();
  config.activation_checkpointing = "full";
  config.checkpointed_layers = checkpointed;
  config.activation_offload = offload;
  const DecoderSpec spec = common_decoder(config);
  std::string word;
  for (Count layer = 0; layer < config.layers; ++layer) word += spec.recomputes(layer) ? '.' : 'x';
  return word;
}

TEST(CheckpointedLayers, AreTheFirstOrSpreadAmongOffloadedOnes) {
  EXPECT_EQ(whole_layers(0, false), "............");
  EXPECT_EQ(whole_layers(9, false), ".........xxx");
  EXPECT_EQ(whole_layers(12, false), "............");
  EXPECT_EQ(whole_layers(0, true), "............");
  EXPECT_EQ(whole_layers(9, true), "...x...x...x");
  EXPECT_EQ(whole_layers(7, true), "..x.x..x.x.x");
  EXPECT_EQ(whole_layers(1, true), ".xxxxxxxxxxx");
}

TEST(ModelCounts, ParametersOfGpt2) { EXPECT_EQ(count_parameters(gpt2_small()), 124'439'808); }

TEST(ModelCounts, ParametersOfLlama) {
  ModelSection config;
  config.kind = "llama";
  config.layers = 16;
  config.width = 2048;
  config.heads = 32;
  config.kv_heads = 8;
  config.ffn_width = 8192;
  config.vocabulary = 32000;
  config.tied_head = false;
  const Count c = 2048, kv = 8 * (2048 / 32), f = 8192;
  const Count attention = c * c + 2 * c * kv + c * c, feed_forward = 3 * c * f, norms = 2 * c;
  const Count expected = 2 * 32000 * c + 16 * (attention + feed_forward + norms) + c;
  EXPECT_EQ(expected, 1'104'218'112);
  EXPECT_EQ(count_parameters(config), expected);
  config.tied_head = true;
  EXPECT_EQ(count_parameters(config), expected - 32000 * c);
}

TEST(ModelCounts, ParametersOfTheMlp) {
  const ModelSection config = mlp_config();  // 5 -> 9 -> 9 -> 3
  EXPECT_EQ(count_parameters(config), (5 * 9 + 9) + (9 * 9 + 9) + (9 * 3 + 3));
}

// 175 billion parameters would need 700 GB for the values alone.
TEST(ModelCounts, CountingAllocatesNothing) {
  ModelSection config = gpt2_small();
  config.layers = 96;
  config.width = 12288;
  config.heads = config.kv_heads = 96;
  config.ffn_width = 4 * 12288;
  config.context = 2048;
  const Count c = 12288;
  EXPECT_EQ(count_parameters(config), 50257 * c + 2048 * c + 96 * (12 * c * c + 13 * c) + 2 * c);
  const std::vector<std::int32_t> ids(std::size_t{8} * 2048);
  const std::vector<Count> slots(8);
  const Bytes activations = counted_activations([&] { return make_model(config, 1); }, {8, ids, ids, {}, slots});
  EXPECT_GT(activations, 4 * 8 * 2048 * c * 96);  // no less than each block's input
}

class ModelSizes : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelSizes, CountsAreThoseOfTheModel) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_model(config, 1, test_storage());
  EXPECT_EQ(count_parameters(config), model->parameters().elements());
  EXPECT_EQ(model->classes(), config.kind == "mlp" ? config.classes : config.vocabulary);
  EXPECT_EQ(model->kind(), config.kind);
}

// 6 N + 12 L C T, N without the position embeddings (PaLM, appendix B), C as wide as all heads; the mlp has no attention.
TEST_P(ModelSizes, OperationsOfAToken) {
  const auto& [name, config, samples, tokens] = GetParam();
  const auto model = make_model(config, 1, test_storage());
  const double all = static_cast<double>(count_parameters(config));
  for (const Count t : {1, 4, 6}) {
    double expected = 6.0 * all;
    if (config.kind == "gpt2") expected -= 6.0 * static_cast<double>(config.context * config.width);
    const Count heads = config.kind == "qwen3" ? config.heads * own_key<Count>(config, "head_size") : config.width;
    if (config.kind != "mlp") expected += 12.0 * static_cast<double>(config.layers * heads * t);
    EXPECT_DOUBLE_EQ(model->flops_per_token(t), expected) << "T = " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelSizes, ::testing::ValuesIn(model_cases()), name_of_case);

// How far into its memory a pass writes. The arena is one chunk full of a pattern; the last element that lost it marks how much
// was in use at once, without the ends of chunks that Arena::peak_bytes counts as used.
Bytes measured_bytes(Model& model, const ModelInput& input, Bytes counted) {
  constexpr std::uint32_t kPattern = 0x7fc0aced;  // a NaN that no operation produces; as two numbers of 16 bits, one is NaN
  Arena arena("test", test_device());
  const Count elements = counted / 256 * 128 + 2 * kMiB;  // of fp32; a multiple of the arena's alignment
  arena.reserve(4 * elements);
  const Tensor chunk = [&] {
    const Arena::Scope scope(arena);
    return arena.take({elements});
  }();
  chunk.copy_from(ops::filled(chunk.shape(), std::bit_cast<float>(kPattern), DeviceKind::cpu));
  StepContext context = context_with(model, arena);
  context.training = true;
  DeviceInputs inputs;
  const ModelInput placed = inputs.put(input);
  Hooks hooks;
  model.forward(context, placed, 1.0f, hooks);
  model.backward(context, placed, hooks);
  EXPECT_EQ(arena.peak_bytes(), chunk.bytes()) << "the pass did not fit the chunk";
  const Tensor host = chunk.to_host();
  Count used = host.elements();
  while (used > 0 && std::bit_cast<std::uint32_t>(host.f32()[used - 1]) == kPattern) --used;
  return 4 * used;
}

struct MemoryCase {
  Count samples, vocabulary;  // of few words, backward needs most; of many, the logits do
};

// What plans rely on: that a pass which is only counted takes what one takes that computes. The last tensor ends before the next
// address at which one may begin, and scratch memory need not be written to its end: one percent.
TEST(ModelActivations, AreWhatAPassReallyHolds) {
  for (const char* kind : {"gpt2", "llama", "qwen3", "mlp"}) {
    for (const char* checkpointing : {"none", "selective", "full"}) {
      for (const auto& [samples, vocabulary] : {MemoryCase{1, 301}, MemoryCase{8, 301}, MemoryCase{4, 5000}}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          ModelSection config = wide_config(kind);
          config.activation_checkpointing = checkpointing;
          config.vocabulary = vocabulary;
          config.dropout = config.kind == "gpt2" ? 0.1 : 0.0;
          const ModelStorage storage = test_storage(dtype);
          const Count n = config.kind == "mlp" ? 16 * samples : samples;  // a sample of the mlp is but one row
          const TestBatch batch = make_batch(config, n, config.context);
          const auto make = [&] { return make_model(config, 1, storage); };
          const Bytes counted = counted_activations(make, batch.input());
          const Bytes measured = measured_bytes(*make(), batch.input(), counted);
          EXPECT_LE(measured, counted);
          EXPECT_NEAR(static_cast<double>(measured) / static_cast<double>(counted), 1.0, 0.01)
              << kind << " of " << n << " samples, vocabulary " << vocabulary << ", checkpointing " << checkpointing << ", "
              << name_of(dtype) << ": " << measured << " bytes, counted " << counted;
        }
      }
    }
  }
}

TEST(ModelActivations, OfPackedDocumentsAreWhatAPassReallyHolds) {
  for (const char* kind : {"gpt2", "llama"}) {
    for (const char* checkpointing : {"none", "selective", "full"}) {
      ModelSection config = wide_config(kind);
      config.activation_checkpointing = checkpointing;
      TestBatch batch = make_batch(config, 8, config.context);
      batch.pack(ops::random_first_keys(8, config.context, 10, 1));
      const Bytes counted = counted_activations([&] { return make_model(config, 1, test_storage()); }, batch.input());
      const Bytes measured = measured_bytes(*make_model(config, 1, test_storage()), batch.input(), counted);
      EXPECT_LE(measured, counted);
      EXPECT_NEAR(static_cast<double>(measured) / static_cast<double>(counted), 1.0, 0.01) << kind << checkpointing;
    }
  }
}

TEST(ModelActivations, CheckpointingHoldsLess) {
  for (const char* kind : {"gpt2", "llama", "qwen3"}) {
    ModelSection config = wide_config(kind);
    config.layers = 12;
    const TestBatch batch = make_batch(config, 16, config.context);
    const auto counted = [&] { return counted_activations([&] { return make_model(config, 1); }, batch.input()); };
    const Bytes plain = counted();
    config.activation_checkpointing = "full";
    const Bytes full = counted();
    EXPECT_LT(full, plain / 3) << kind;
    config.activation_checkpointing = "selective";
    EXPECT_GT(counted(), full) << kind;
    EXPECT_LT(counted(), plain / 2) << kind;
  }
}

// Of each layer but the one whose backward runs, as wide as the input, and a number a row and head.
TEST(ModelActivations, SelectiveRecomputationKeepsAttentionsResult) {
  for (const char* kind : {"gpt2", "llama"}) {
    ModelSection config = wide_config(kind);
    config.layers = 12;
    const TestBatch batch = make_batch(config, 16, config.context);
    const auto counted = [&](const char* choice) {
      config.activation_checkpointing = choice;
      return counted_activations([&] { return make_model(config, 1); }, batch.input());
    };
    EXPECT_EQ(counted("selective") - counted("full"), 11 * 16 * config.context * 4 * (config.width + config.heads)) << kind;
  }
}

// The bounds are five standard deviations of the estimates of mean and deviation from n values.
TEST(ModelInitialValues, HaveTheirMeansAndDeviations) {
  for (const char* kind : {"gpt2", "llama", "qwen3"}) {
    ModelSection config = wide_config(kind);
    config.init_std = 0.05;
    const auto model = make_model(config, 7, test_storage());
    for (const auto& parameter : model->parameters().all()) {
      const Array values = ops::values_of(parameter->value);
      const double n = static_cast<double>(values.size());
      if (parameter->global_shape.dims() == 1) {
        const double expected = parameter->name.ends_with(".bias") ? 0.0 : 1.0;
        for (const double value : values) ASSERT_EQ(value, expected) << parameter->name;
        continue;
      }
      // GPT-2, section 2.3: the two projections that each block adds to the residual stream start smaller by sqrt(2 L).
      const bool residual =
          parameter->name.ends_with("attention.output.weight") || parameter->name.ends_with("feed_forward.down.weight");
      const double expected = residual ? 0.05 / std::sqrt(2.0 * static_cast<double>(config.layers)) : 0.05;
      double mean = 0.0;
      for (const double value : values) mean += value / n;
      EXPECT_NEAR(mean, 0.0, 5.0 * expected / std::sqrt(n)) << parameter->name;
      EXPECT_NEAR(std::sqrt(ops::dot(values, values) / n), expected, 5.0 * expected / std::sqrt(2.0 * n)) << parameter->name;
    }
  }
}

TEST(ModelInitialValues, FollowFromTheSeedAlone) {
  for (const ModelCase& model_case : main_cases()) {
    const auto a = make_model(model_case.config, 7, test_storage()), same = make_model(model_case.config, 7, test_storage()),
               other = make_model(model_case.config, 8, test_storage());
    EXPECT_TRUE(ops::same_bits(a->parameters().flat_values(), same->parameters().flat_values())) << model_case.name;
    for (const auto& parameter : a->parameters().all()) {
      if (parameter->global_shape.dims() == 1) continue;
      EXPECT_FALSE(ops::same_bits(parameter->value, other->parameters().find(parameter->name)->value)) << parameter->name;
    }
  }
}

TEST(ModelInitialValues, NoTwoMatricesAreAlike) {
  for (const ModelCase& model_case : main_cases()) {
    const auto model = make_model(model_case.config, 7, test_storage());
    std::set<double> first_values;
    Count matrices = 0;
    for (const auto& parameter : model->parameters().all()) {
      if (parameter->global_shape.dims() == 1) continue;
      ++matrices;
      first_values.insert(ops::values_of(parameter->value).front());
    }
    EXPECT_EQ(static_cast<Count>(first_values.size()), matrices) << model_case.name;
  }
}

TEST(ModelInitialValues, GradientsStartAtZeroAndMatricesDecay) {
  for (const ModelCase& model_case : main_cases()) {
    const auto model = make_model(model_case.config, 7, test_storage());
    for (const double gradient : ops::values_of(model->parameters().flat_gradients())) ASSERT_EQ(gradient, 0.0);
    for (const auto& parameter : model->parameters().all()) {
      EXPECT_EQ(parameter->decays, parameter->global_shape.dims() == 2) << parameter->name;
    }
  }
}

}  // namespace
}  // namespace cohort::test
