// GPT-2 (Radford et al. 2019): learned positions, LayerNorm, GELU, biases everywhere, head tied to the embedding by default.
#include "models/family.hpp"

namespace cohort::gpt2 {

const ModelRules& rules();
const HuggingFaceForm& hugging_face();

namespace {

DecoderSpec decoder(const ModelSection& model) {
  DecoderSpec spec = common_decoder(model);
  spec.learned_positions = true;
  spec.dropout = model.dropout;
  spec.block.norm = NormKind::layer;
  spec.block.dropout = model.dropout;
  spec.block.attention.bias = true;
  spec.block.attention.dropout = model.dropout;
  spec.block.feed_forward.kind = FeedForwardKind::gelu;
  return spec;
}

}  // namespace

const ModelFamily& family() {
  static const ModelFamily kFamily{
      .rules = rules(),
      .decoder = decoder,
      .hugging_face = &hugging_face(),
      .known_models = {
          {"gpt2-124m", {.kind = "gpt2", .layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257}},
          {"gpt2-350m", {.kind = "gpt2", .layers = 24, .width = 1024, .heads = 16, .context = 1024, .vocabulary = 50257}},
          {"gpt2-774m", {.kind = "gpt2", .layers = 36, .width = 1280, .heads = 20, .context = 1024, .vocabulary = 50257}}}};
  return kFamily;
}

}  // namespace cohort::gpt2
