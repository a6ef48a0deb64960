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
    if (type != "full_attention") config.refuse("layer_types", "Cohort's model has full_attention in all layers");
  }
}

ModelSection read(const HfKeys& config) {
  ModelSection model;
  read_llama_keys(config, model);
  Count head_size = 128;
  if (config.has("head_dim")) config.read("head_dim", head_size, "head_size");
  model.own["head_size"] = head_size;
  refuse_windows(config);
  return model;
}

nlohmann::ordered_json write(const ModelSection& model) {
  nlohmann::ordered_json json = llama_keys(model, own_key<Count>(model, "head_size"));
  json["use_sliding_window"] = false;
  return json;
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
