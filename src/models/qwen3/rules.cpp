#include "base/error.hpp"
#include "config/decoder_rules.hpp"
#include "config/model_rules.hpp"
#include "config/where_set.hpp"

namespace cohort::qwen3 {
namespace {

Count head_size_of(const ModelSection& model) { return own_key<Count>(model, "head_size"); }

void resolve(RunConfig& config) {
  ModelSection& model = config.model;
  if (head_size_of(model) == 0) {
    check_width_of_heads(config, /*rotary=*/true);
    model.own["head_size"] = model.width / model.heads;
  } else if (head_size_of(model) % 2 != 0) {
    fail(ExitCode::config, "{}model.head_size = {} is odd, but RoPE turns pairs of features; {} and {} fit",
         where_set(config, {"model.head_size"}), head_size_of(model), head_size_of(model) - 1, head_size_of(model) + 1);
  }
  resolve_kv_heads(config);
  check_rope_scaling(config);
  if (model.ffn_width == 0) model.ffn_width = swiglu_width(model.width);
}

AttentionSizes attention(const ModelSection& model) { return {model.heads, model.kv_heads, head_size_of(model)}; }

}  // namespace

const ModelRules& rules() {
  static const ModelRules kRules{
      .kind = "qwen3",
      .help = "llama with its own head size, and with normalised queries and keys",
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
      .own_keys = {{"head_size", Count{0}, IntegerRange{0, kMaxSize}, "features of one head, an even number; 0 = width / heads"}},
      .identity = {"layers", "width", "heads", "kv_heads", "head_size", "ffn_width", "context", "vocabulary", "tied_head"},
      .resolve = resolve,
      .attention = attention};
  return kRules;
}

}  // namespace cohort::qwen3
