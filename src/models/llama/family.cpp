// Llama (Touvron et al. 2023): RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases.
#include "models/family.hpp"

namespace cohort::llama {

const ModelRules& rules();
const HuggingFaceForm& hugging_face();

namespace {

DecoderSpec decoder(const ModelSection& model) {
  DecoderSpec spec = common_decoder(model);
  spec.block.norm = NormKind::rms;
  spec.block.attention.rotary = true;
  spec.block.feed_forward.kind = FeedForwardKind::swiglu;
  return spec;
}

}  // namespace

const ModelFamily& family() {
  static const ModelFamily kFamily{.rules = rules(),
                                   .decoder = decoder,
                                   .hugging_face = &hugging_face(),
                                   .known_models = {{"llama-1b",
                                                     {.kind = "llama",
                                                      .layers = 16,
                                                      .width = 2048,
                                                      .heads = 32,
                                                      .kv_heads = 8,
                                                      .ffn_width = 8192,
                                                      .context = 2048,
                                                      .vocabulary = 32000,
                                                      .tied_head = false}},
                                                    {"llama-8b",
                                                     {.kind = "llama",
                                                      .layers = 32,
                                                      .width = 4096,
                                                      .heads = 32,
                                                      .kv_heads = 8,
                                                      .ffn_width = 14336,
                                                      .context = 8192,
                                                      .vocabulary = 128256,
                                                      .tied_head = false}}}};
  return kFamily;
}

}  // namespace cohort::llama
