// transformers' LlamaForCausalLM.
#include "models/hugging_face.hpp"

namespace cohort::llama {
namespace {

ModelSection read(const HfKeys& config) {
  ModelSection model;
  model.kind = "llama";
  read_llama_keys(config, model);
  config.require("mlp_bias", {false});
  config.require("partial_rotary_factor", {1.0});
  config.require("sliding_window", {});
  config.require("head_dim", {model.heads > 0 ? model.width / model.heads : 0});
  return model;
}

nlohmann::ordered_json write(const ModelSection& model) {
  nlohmann::ordered_json json = llama_keys(model, model.width / model.heads);
  json["mlp_bias"] = false;
  return json;
}

std::vector<Correspondence> correspondences(const ModelSection& model) {
  return llama_style(model, {{"input_layernorm", "norm1"},
                             {"self_attn.q_proj", "attention.query"},
                             {"self_attn.k_proj", "attention.key"},
                             {"self_attn.v_proj", "attention.value"},
                             {"self_attn.o_proj", "attention.output"},
                             {"post_attention_layernorm", "norm2"},
                             {"mlp.gate_proj", "feed_forward.gate"},
                             {"mlp.up_proj", "feed_forward.up"},
                             {"mlp.down_proj", "feed_forward.down"}});
}

}  // namespace

const HuggingFaceForm& hugging_face() {
  static const HuggingFaceForm kForm{.model_type = "llama",
                                     .architecture = "LlamaForCausalLM",
                                     .prefix = "model.",
                                     .read = read,
                                     .write = write,
                                     .correspondences = correspondences,
                                     .derived = {".rotary_emb.inv_freq"}};
  return kForm;
}

}  // namespace cohort::llama
