// Qwen3, the dense ones (Yang et al. 2025, "Qwen3 Technical Report", section 2): Llama with a stated head size, so that the heads
// together need not be as wide as the model, and with queries and keys normalised head by head.
#include "models/family.hpp"

namespace cohort::qwen3 {

const ModelRules& rules();
const HuggingFaceForm& hugging_face();

namespace {

DecoderSpec decoder(const ModelSection& model) {
  DecoderSpec spec = common_decoder(model);
  spec.block.norm = NormKind::rms;
  spec.block.attention.rotary = true;
  spec.block.attention.qk_norm = true;
  spec.block.feed_forward.kind = FeedForwardKind::swiglu;
  return spec;
}

ModelSection model_0_6b() {
  ModelSection model{.kind = "qwen3",
                     .layers = 28,
                     .width = 1024,
                     .heads = 16,
                     .kv_heads = 8,
                     .ffn_width = 3072,
                     .context = 2048,
                     .vocabulary = 151936,
                     .rope_theta = 1e6,
                     .norm_epsilon = 1e-6};
  model.own["head_size"] = Count{128};
  return model;
}

}  // namespace

const ModelFamily& family() {
  static const ModelFamily kFamily{
      .rules = rules(), .decoder = decoder, .hugging_face = &hugging_face(), .known_models = {{"qwen3-0.6b", model_0_6b()}}};
  return kFamily;
}

}  // namespace cohort::qwen3
