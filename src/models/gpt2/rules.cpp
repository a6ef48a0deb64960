#include "config/decoder_rules.hpp"
#include "config/model_rules.hpp"

namespace cohort::gpt2 {
namespace {

void resolve(RunConfig& config) {
  check_width_of_heads(config, /*rotary=*/false);
  ModelSection& model = config.model;
  if (model.ffn_width == 0) model.ffn_width = 4 * model.width;
}

AttentionSizes attention(const ModelSection& model) { return {model.heads, model.heads, model.width / model.heads}; }

}  // namespace

const ModelRules& rules() {
  static const ModelRules kRules{
      .kind = "gpt2",
      .help = "learned positions, LayerNorm, GELU, biases",
      .keys = {{"layers"},
               {"width"},
               {"heads"},
               {"ffn_width", "4 C"},
               {"context"},
               {"vocabulary"},
               {"tied_head"},
               {"dropout"},
               {"init_std"},
               {"norm_epsilon"},
               {"activation_checkpointing"},
               {"checkpointed_layers"},
               {"activation_offload"}},
      .identity = {"layers", "width", "heads", "kv_heads", "ffn_width", "context", "vocabulary", "tied_head"},
      .resolve = resolve,
      .attention = attention};
  return kRules;
}

}  // namespace cohort::gpt2
