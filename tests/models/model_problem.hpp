// Small models with weights that show every mistake, batches for them, and a training pass run on them. Models lie on the device
// under test; batches, which the reference reads too, on the host, and a pass brings them to the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.hpp"
#include "ops/compare.hpp"
#include "ops/cross_entropy.hpp"
#include "reference_decoder.hpp"
#include "support/device_model.hpp"

namespace cohort::test {

inline ModelSection gpt2_config(bool tied_head = true) {
  ModelSection config;
  config.kind = "gpt2";
  config.layers = 2;
  config.width = 12;
  config.heads = config.kv_heads = 3;
  config.ffn_width = 20;
  config.context = 6;
  config.vocabulary = 11;
  config.tied_head = tied_head;
  return config;
}

inline ModelSection llama_config(Count kv_heads = 2, bool tied_head = true) {
  ModelSection config = gpt2_config(tied_head);
  config.kind = "llama";
  config.width = 16;
  config.heads = 4;
  config.kv_heads = kv_heads;
  config.rope_theta = 100.0;  // so that the slow pairs turn, too, within a few tokens
  return config;
}

/// Heads that together are wider than the model.
inline ModelSection qwen3_config(Count kv_heads = 2, bool tied_head = true) {
  ModelSection config = llama_config(kv_heads, tied_head);
  config.kind = "qwen3";
  config.own["head_size"] = Count{6};
  return config;
}

inline ModelSection mlp_config() {
  ModelSection config;
  config.kind = "mlp";
  config.layers = 2;
  config.width = 9;
  config.inputs = 5;
  config.classes = 3;
  return config;
}

/// Large enough to show in memory and in statistics, small enough for milliseconds.
inline ModelSection wide_config(const std::string& kind) {
  ModelSection config = kind == "llama" ? llama_config(2, false) : kind == "qwen3" ? qwen3_config(2, false) : gpt2_config();
  config.kind = kind;
  config.layers = 3;
  config.width = 64;
  config.heads = 4;
  if (kind == "qwen3") config.own["head_size"] = Count{24};  // attention on GPUs takes multiples of 8 in 16 bits
  config.kv_heads = kind == "llama" ? 2 : 4;
  config.ffn_width = 192;
  config.context = 32;
  config.vocabulary = 301;
  config.inputs = 48;
  config.classes = 10;
  return config;
}

/// A model whose weights are far from their initial values: large enough that attention looks at some tokens more than at others,
/// non-linearities bend, and a norm weight or a bias left out changes the result.
inline std::unique_ptr<Model> make_bent_model(const ModelSection& config, DType compute = DType::f32) {
  auto model = make_model(config, 1, test_storage(compute));
  std::uint32_t stream = 100;
  for (const auto& parameter : model->parameters().all()) {
    const bool matrix = parameter->global_shape.dims() == 2;
    const bool norm_weight = !matrix && parameter->init.kind == InitSpec::Kind::ones;
    const double inputs = static_cast<double>(parameter->global_shape.columns());
    const Array values =
        ops::random_values(parameter->elements(), stream++, matrix ? 1.2 / std::sqrt(inputs) : 0.3, norm_weight ? 1.0 : 0.0);
    parameter->value.copy_from(ops::tensor_of(values, parameter->global_shape));
  }
  model->parameters().values_changed();
  return model;
}

/// Owns what a ModelInput points to.
struct TestBatch {
  Count samples = 0;
  std::vector<std::int32_t> inputs, targets;
  std::vector<float> features;
  std::vector<Count> slots;
  std::vector<std::int32_t> first_keys = {}, positions = {};  // of packed documents, or empty

  ModelInput input() const { return {samples, inputs, targets, features, slots, {first_keys, positions}}; }

  /// From now on the samples are packed with these documents [samples, tokens], the last token of each without a target.
  void pack(const std::vector<std::int32_t>& of_documents) {
    const std::size_t tokens = of_documents.size() / static_cast<std::size_t>(samples);
    first_keys = positions = of_documents;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      positions[i] = static_cast<std::int32_t>(i % tokens) - first_keys[i];
      const bool ends = (i + 1) % tokens != 0 && first_keys[i + 1] != first_keys[i];
      if (ends) targets[i] = ops::kIgnoredTarget;
    }
  }
};

/// Random samples, of `tokens` tokens each if the model reads tokens, of which about one target in five is ignored. `stream`
/// tells batches apart.
inline TestBatch make_batch(const ModelSection& config, Count samples, Count tokens, std::uint32_t stream = 1) {
  TestBatch batch{samples, {}, {}, {}, {}};
  if (config.kind == "mlp") {
    for (const double x : ops::random_values(samples * config.inputs, stream)) batch.features.push_back(static_cast<float>(x));
    batch.targets = ops::random_indices(samples, config.classes, stream);
  } else {
    batch.inputs = ops::random_indices(samples * tokens, config.vocabulary, stream);
    batch.targets = ops::random_indices(samples * tokens, config.vocabulary, stream + 1000);
  }
  for (std::size_t i = 1; i < batch.targets.size(); i += 5) batch.targets[i] = ops::kIgnoredTarget;
  for (Count sample = 0; sample < samples; ++sample) batch.slots.push_back(sample);
  return batch;
}

/// Fills the memory that the arena hands out next with NaN: what is read without having been written spoils the result.
inline void soil(Arena& arena) {
  static const std::vector<float> garbage(std::size_t{2} << 20, ops::kGarbage);
  const Arena::Scope scope(arena);
  const Shape shape{static_cast<Count>(garbage.size())};
  arena.take(shape).copy_from(Tensor::wrap(const_cast<float*>(garbage.data()), shape));  // which is only read
}

/// For a pass of the model, its loss starting at 0.
inline StepContext context_with(const Model& model, Arena& arena) {
  return {.exec = ops::test_exec(), .dtype = model.storage().compute, .activations = &arena, .loss_sum = ops::number_tensor(0.0)};
}

struct PassOptions {
  float gradient_scale = 1.0f;
  std::uint32_t step = 0;
  std::uint64_t seed = 5;
  bool accumulate = false;  // onto the gradients that are there
  void (*heartbeat)() = nullptr;
};

struct Pass {
  double loss = 0.0;
  Tensor gradients;  // a copy, on the host, of the registry's flat gradients
};

/// One training forward and backward.
inline Pass run_pass(Model& model, const ModelInput& input, const PassOptions& options = {}, Hooks* hooks = nullptr) {
  Hooks none;
  Arena arena("test", test_device());
  soil(arena);
  StepContext context = context_with(model, arena);
  context.training = true;
  context.seed = options.seed;
  context.step = options.step;
  context.heartbeat = options.heartbeat;
  DeviceInputs inputs;
  const ModelInput placed = inputs.put(input);
  if (!options.accumulate) model.parameters().zero_gradients();
  Pass pass;
  model.forward(context, placed, options.gradient_scale, hooks ? *hooks : none);
  model.backward(context, placed, hooks ? *hooks : none);
  pass.loss = ops::number_of(context.loss_sum);
  const Tensor& gradients = model.parameters().flat_gradients();
  pass.gradients = Tensor::zeros("test", gradients.shape());
  pass.gradients.copy_from(gradients);
  EXPECT_TRUE(padding_is_zero(model.parameters(), pass.gradients));
  return pass;
}

/// Logits of each sample's last token, on the host.
inline Tensor run_last_logits(Model& model, const ModelInput& input) {
  Arena arena("test", test_device());
  soil(arena);
  DeviceInputs inputs;
  const Tensor logits = ops::filled({input.samples, model.classes()}, ops::kGarbage, DeviceKind::cpu);
  Hooks none;
  model.last_logits(context_with(model, arena), inputs.put(input), logits, none);
  return logits;
}

inline double run_loss(Model& model, const ModelInput& input) {
  Arena arena("test", test_device());
  soil(arena);
  DeviceInputs inputs;
  const StepContext context = context_with(model, arena);
  Hooks none;
  model.loss(context, inputs.put(input), none);
  return ops::number_of(context.loss_sum);
}

/// The largest size of an element.
inline double largest(Input values) {
  double result = 0.0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

}  // namespace cohort::test
