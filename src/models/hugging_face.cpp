#include "models/hugging_face.hpp"

#include <fmt/format.h>

#include <string_view>

namespace cohort {

std::vector<Correspondence> llama_style(const ModelSection& model,
                                        const std::vector<std::pair<std::string, std::string>>& of_block) {
  std::vector<Correspondence> all{{"model.embed_tokens.weight", {"embedding.weight"}}};
  for (Count layer = 0; layer < model.layers; ++layer) {
    for (const auto& [theirs, ours] : of_block)
      all.push_back({fmt::format("model.layers.{}.{}.weight", layer, theirs), {fmt::format("blocks.{}.{}.weight", layer, ours)}});
  }
  all.push_back({"model.norm.weight", {"norm.weight"}});
  if (!model.tied_head) all.push_back({"lm_head.weight", {"head.weight"}});
  return all;
}

void read_llama_keys(const HfKeys& config, ModelSection& model) {
  config.read("num_hidden_layers", model.layers, "layers");
  config.read("hidden_size", model.width, "width");
  config.read("num_attention_heads", model.heads, "heads");
  if (config.has("num_key_value_heads")) config.read("num_key_value_heads", model.kv_heads, "kv_heads");
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
}

nlohmann::ordered_json llama_keys(const ModelSection& model, Count head_size) {
  return {{"vocab_size", model.vocabulary},
          {"max_position_embeddings", model.context},
          {"hidden_size", model.width},
          {"intermediate_size", model.ffn_width},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"head_dim", head_size},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_epsilon},
          {"rope_theta", model.rope_theta},
          {"rope_scaling", nullptr},
          {"attention_bias", false},
          {"attention_dropout", 0.0}};
}

namespace {

// What stands in rope_scaling or rope_parameters: rotary positions here have a theta, and nothing else. Returns whether a theta
// is among it.
bool read_rope_object(const HfKeys& config, const std::string& key, double& theta) {
  const HfKeys::Json& rope = config.at(key);
  if (!rope.is_object()) config.refuse(key, "not an object");
  bool has_theta = false;
  for (const auto& [name, value] : rope.items()) {
    if (value.is_null()) continue;
    if (name == "rope_theta") {
      config.read(value, key, theta, "rope_theta");
      has_theta = true;
    } else if (name == "partial_rotary_factor") {
      if (value != 1.0) config.refuse(key, "Cohort rotates whole heads");
    } else if (name == "rope_type" || name == "type") {
      if (value != "default") config.refuse(key, "Cohort does not scale rotary positions");
    } else if (value.is_object()) {
      config.refuse(key, fmt::format("{}: Cohort has the same rotary positions in all layers", name));
    } else {
      config.refuse(key, fmt::format("{}: Cohort does not scale rotary positions", name));
    }
  }
  return has_theta;
}

}  // namespace

// Older files have rope_theta and rope_scaling; newer ones both in rope_parameters, where the type is "default" if left out.
void read_rope(const HfKeys& config, ModelSection& model) {
  bool known = config.has("rope_theta");
  if (known) config.read(config.at("rope_theta"), "rope_theta", model.rope_theta, "rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    double theta = model.rope_theta;
    const bool has_theta = read_rope_object(config, key, theta);
    const HfKeys::Json& rope = config.at(key);
    if (key == std::string_view("rope_scaling") && !rope.empty() && !rope.contains("rope_type") && !rope.contains("type")) {
      config.refuse(key, "no rope_type: Cohort does not scale rotary positions");
    }
    if (has_theta && known && theta != model.rope_theta) {
      config.refuse(key, fmt::format("rope_theta is {} elsewhere in the file: remove the wrong one", model.rope_theta));
    }
    model.rope_theta = theta;
    known = known || has_theta;
  }
}

}  // namespace cohort
