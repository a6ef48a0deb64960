// transformers' Qwen3ForCausalLM.
#include "models/hugging_face.hpp"

#include "config/model_rules.hpp"

namespace cohort::qwen3 {
namespace {

// Layers with a window, of all or of some, would see less than they do here.
void refuse_windows(const HfKeys& config) {
  config.require("use_sliding_window", {false});
  for (const char* without_effect : {"sliding_window", "max_window_layers"}) config.has(without_effect);
  if (!config.has("layer_types")) return;
  for (const auto& type : config.at("layer_types")) {
    if (type != "full_attention") config.refuse("layer_types", "the model here has full_attention in all layers");
  }
}

ModelSection read(const HfKeys& config) {
  ModelSection model;
  config.read("num_hidden_layers", model.layers, "layers");
  config.read("hidden_size", model.width, "width");
  config.read("num_attention_heads", model.heads, "heads");
  if (config.has("num_key_value_heads")) config.read("num_key_value_heads", model.kv_heads, "kv_heads");
  Count head_size = 128;
  if (config.has("head_dim")) config.read("head_dim", head_size, "head_size");
  model.own["head_size"] = head_size;
  config.read("intermediate_size", model.ffn_width, "ffn_width");
  config.read("max_position_embeddings", model.context, "context");
  config.read("vocab_size", model.vocabulary, "vocabulary");
  model.norm_epsilon = 1e-6;
  if (config.has("rms_norm_eps")) config.read(config.at("rms_norm_eps"), "rms_norm_eps", model.norm_epsilon, "norm_epsilon");
  model.tied_head = config.flag("tie_word_embeddings", false);
  read_rope(config, model);
  config.require("hidden_act", {"silu", "swish"});  // two names of one function
  config.require("attention_bias", {false});
  config.require("attention_dropout", {0.0});
  refuse_windows(config);
  return model;
}

nlohmann::ordered_json write(const ModelSection& model) {
  return {{"vocab_size", model.vocabulary},
          {"max_position_embeddings", model.context},
          {"hidden_size", model.width},
          {"intermediate_size", model.ffn_width},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"head_dim", own_key<Count>(model, "head_size")},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_epsilon},
          {"rope_theta", model.rope_theta},
          {"rope_scaling", nullptr},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"use_sliding_window", false}};
}

std::vector<Correspondence> correspondences(const ModelSection& model) {
  return llama_style(model, {{"input_layernorm", "norm1"},
                             {"self_attn.q_proj", "attention.query"},
                             {"self_attn.k_proj", "attention.key"},
                             {"self_attn.v_proj", "attention.value"},
                             {"self_attn.o_proj", "attention.output"},
                             {"self_attn.q_norm", "attention.query_norm"},
                             {"self_attn.k_norm", "attention.key_norm"},
                             {"post_attention_layernorm", "norm2"},
                             {"mlp.gate_proj", "feed_forward.gate"},
                             {"mlp.up_proj", "feed_forward.up"},
                             {"mlp.down_proj", "feed_forward.down"}});
}

}  // namespace

const HuggingFaceForm& hugging_face() {
  static const HuggingFaceForm kForm{.model_type = "qwen3",
                                     .architecture = "Qwen3ForCausalLM",
                                     .prefix = "model.",
                                     .read = read,
                                     .write = write,
                                     .correspondences = correspondences};
  return kForm;
}

}  // namespace cohort::qwen3
