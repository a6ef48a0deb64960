#include "models/family.hpp"

#include <algorithm>
#include <cmath>

#include "config/lora_keys.hpp"
#include "config/optimizer_groups.hpp"

namespace cohort {

const ModelFamily& family_of(const ModelSection& model) {
  const ModelRules& rules = rules_of(model);
  for (const ModelFamily* family : all_model_families()) {
    if (&family->rules == &rules) return *family;
  }
  COHORT_CHECK(false, "the family {} has rules, but cannot be built", rules.kind);
}

namespace {

LoraSpec lora_of(const LoraSection& lora) {
  if (lora.rank == 0) return {};
  return {lora.rank, lora.alpha, [targets = lora_targets(lora)](const std::string& weight) {
            return std::any_of(targets.begin(), targets.end(),
                               [&](const std::string& pattern) { return matches(pattern, weight); });
          }};
}

}  // namespace

std::unique_ptr<Decoder> declare_decoder(const ModelSection& model, const ModelStorage& storage, TensorParallel& parallel,
                                         std::span<const ChunkSpec> chunks) {
  const ModelFamily& family = family_of(model);
  if (family.decoder == nullptr) {
    fail(ExitCode::config, "model.kind = \"{}\" cannot be cut into pipeline stages: it has no transformer blocks", model.kind);
  }
  DecoderSpec spec = family.decoder(model);
  spec.lora = spec.block.attention.lora = spec.block.feed_forward.lora = lora_of(model.lora);
  return std::make_unique<Decoder>(model.kind, spec, storage, parallel, chunks);
}

std::unique_ptr<Model> declare_model(const ModelSection& model, const ModelStorage& storage, TensorParallel& parallel) {
  const ModelFamily& family = family_of(model);
  if (family.decoder != nullptr) return declare_decoder(model, storage, parallel, {});
  COHORT_CHECK(parallel.parts() == 1, "the {} has no tensor parallelism, but {} parts", model.kind, parallel.parts());
  return family.declare(model, storage);
}

std::unique_ptr<Model> make_model(const ModelSection& config, std::uint64_t seed, const ModelStorage& storage,
                                  TensorParallel& parallel) {
  std::unique_ptr<Model> model = declare_model(config, storage, parallel);
  model->parameters().allocate(seed, storage);
  return model;
}

Count count_parameters(const ModelSection& config) { return declare_model(config, {})->parameters().elements(); }

namespace {

ops::RopeSpec rope_of(const ModelSection& model) {
  const auto scaling = model.rope_scaling == "llama3"   ? ops::RopeScaling::llama3
                       : model.rope_scaling == "linear" ? ops::RopeScaling::linear
                                                        : ops::RopeScaling::none;
  return {.theta = model.rope_theta,
          .scaling = scaling,
          .factor = model.rope_factor,
          .low = model.rope_low_freq_factor,
          .high = model.rope_high_freq_factor,
          .original_context = model.rope_original_context};
}

Recompute recompute_of(const ModelSection& model) {
  return model.activation_checkpointing == "full"        ? Recompute::full
         : model.activation_checkpointing == "selective" ? Recompute::selective
                                                         : Recompute::none;
}

}  // namespace

DecoderSpec common_decoder(const ModelSection& model) {
  const AttentionSizes sizes = *attention_of(model);
  // Each block adds two branches to the residual stream; their last layers start smaller so that its variance does not grow with
  // depth (GPT-2 paper, section 2.3).
  const double output_std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers));
  DecoderSpec spec;
  spec.layers = model.layers;
  spec.width = model.width;
  spec.vocabulary = model.vocabulary;
  spec.tokens = model.context;
  spec.tied_head = model.tied_head;
  spec.init_std = model.init_std;
  spec.block.norm_epsilon = model.norm_epsilon;
  spec.block.recompute = recompute_of(model);
  spec.offload = model.activation_offload;
  spec.recomputed_layers = model.checkpointed_layers > 0 ? model.checkpointed_layers : model.layers;
  spec.block.attention = {.width = model.width,
                          .heads = sizes.heads,
                          .kv_heads = sizes.kv_heads,
                          .head_size = sizes.head_size,
                          .tokens = model.context,
                          .rope = rope_of(model),
                          .norm_epsilon = model.norm_epsilon,
                          .init_std = model.init_std,
                          .output_std = output_std};
  spec.block.feed_forward = {
      .width = model.width, .ffn_width = model.ffn_width, .init_std = model.init_std, .output_std = output_std};
  return spec;
}

}  // namespace cohort
