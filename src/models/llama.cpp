#include "models/llama.hpp"

#include <cmath>

namespace cohort {

std::unique_ptr<Decoder> make_llama(const ModelSection& config, const Placement& placement, TensorParallel& parallel,
                                    std::span<const ChunkSpec> chunks) {
  const double output_std = config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));  // as in gpt2.cpp
  DecoderSpec spec;
  spec.layers = config.layers;
  spec.width = config.width;
  spec.vocabulary = config.vocabulary;
  spec.tokens = config.context;
  spec.learned_positions = false;
  spec.tied_head = config.tied_head;
  spec.init_std = config.init_std;
  spec.block.norm = NormKind::rms;
  spec.block.norm_epsilon = config.norm_epsilon;
  spec.block.checkpointing = config.activation_checkpointing;
  spec.block.attention = {.width = config.width,
                          .heads = config.heads,
                          .kv_heads = config.kv_heads,
                          .tokens = config.context,
                          .bias = false,
                          .rotary = true,
                          .rope_theta = config.rope_theta,
                          .dropout = 0.0,
                          .init_std = config.init_std,
                          .output_std = output_std,
                          .device = placement.device};
  spec.block.feed_forward = {FeedForwardKind::swiglu, config.width, config.ffn_width, config.init_std, output_std};
  return std::make_unique<Decoder>("llama", spec, placement, parallel, chunks);
}

}  // namespace cohort
