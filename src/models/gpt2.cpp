#include "models/gpt2.hpp"

#include <cmath>

namespace cohort {

std::unique_ptr<Decoder> make_gpt2(const ModelSection& config, const Placement& placement, TensorParallel& parallel,
                                   std::span<const ChunkSpec> chunks) {
  // Each block adds two branches to the residual stream; their last layers start smaller so that its variance does not grow with
  // depth (GPT-2 paper, section 2.3).
  const double output_std = config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
  DecoderSpec spec;
  spec.layers = config.layers;
  spec.width = config.width;
  spec.vocabulary = config.vocabulary;
  spec.tokens = config.context;
  spec.learned_positions = true;
  spec.tied_head = config.tied_head;
  spec.dropout = config.dropout;
  spec.init_std = config.init_std;
  spec.block.norm = NormKind::layer;
  spec.block.norm_epsilon = config.norm_epsilon;
  spec.block.dropout = config.dropout;
  spec.block.checkpointing = config.activation_checkpointing;
  spec.block.attention = {.width = config.width,
                          .heads = config.heads,
                          .kv_heads = config.heads,
                          .tokens = config.context,
                          .bias = true,
                          .rotary = false,
                          .rope_theta = 0.0,
                          .dropout = config.dropout,
                          .init_std = config.init_std,
                          .output_std = output_std,
                          .device = placement.device};
  spec.block.feed_forward = {FeedForwardKind::gelu, config.width, config.ffn_width, config.init_std, output_std};
  return std::make_unique<Decoder>("gpt2", spec, placement, parallel, chunks);
}

}  // namespace cohort
