#include "config/decoder_rules.hpp"
#include "config/model_rules.hpp"

namespace cohort::llama {
namespace {

void resolve(RunConfig& config) {
  check_width_of_heads(config, /*rotary=*/true);
  resolve_kv_heads(config);
  check_rope_scaling(config);
  ModelSection& model = config.model;
  if (model.ffn_width == 0) model.ffn_width = swiglu_width(model.width);
}

AttentionSizes attention(const ModelSection& model) { return {model.heads, model.kv_heads, model.width / model.heads}; }

}  // namespace

const ModelRules& rules() {
  static const ModelRules kRules{
      .kind = "llama",
      .help = "RMSNorm, rotary positions, SwiGLU, grouped-query attention",
      .keys = {{"layers"},
               {"width"},
               {"heads"},
               {"kv_heads"},
               {"ffn_width", "8/3 C rounded up to a multiple of 32"},
               {"context"},
               {"vocabulary"},
               {"tied_head"},
               {"init_std"},
               {"rope_theta"},
               {"rope_scaling"},
               {"rope_factor"},
               {"rope_low_freq_factor"},
               {"rope_high_freq_factor"},
               {"rope_original_context"},
               {"norm_epsilon"},
               {"activation_checkpointing"},
               {"checkpointed_layers"},
               {"activation_offload"}},
      .identity = {"layers", "width", "heads", "kv_heads", "ffn_width", "context", "vocabulary", "tied_head"},
      .resolve = resolve,
      .attention = attention};
  return kRules;
}

}  // namespace cohort::llama
