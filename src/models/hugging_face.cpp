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

namespace {

// The numbers of each kind of scaling: the key there, and the one here.
struct ScalingNumber {
  const char* theirs;
  const char* ours;
  double ModelSection::*value;
};
constexpr ScalingNumber kScalingNumbers[] = {{"factor", "rope_factor", &ModelSection::rope_factor},
                                             {"low_freq_factor", "rope_low_freq_factor", &ModelSection::rope_low_freq_factor},
                                             {"high_freq_factor", "rope_high_freq_factor", &ModelSection::rope_high_freq_factor}};
constexpr const char* kOriginalContext = "original_max_position_embeddings";

bool scaling_needs(const std::string& scaling, std::string_view number) {
  return scaling == "llama3" || (scaling == "linear" && number == "factor");
}

std::string scaling_of(const HfKeys& config, const std::string& key) {
  const HfKeys::Json& rope = config.at(key);
  for (const char* name : {"rope_type", "type"}) {
    if (!rope.contains(name) || rope[name].is_null() || rope[name] == "default") continue;
    if (rope[name] == "linear" || rope[name] == "llama3") return rope[name].get<std::string>();
    config.refuse(key, fmt::format("{} {}: Cohort scales rotary positions as linear and llama3 do", name, rope[name].dump()));
  }
  return "none";
}

// One number of the object; false if it is not one of the scaling's.
bool read_scaling_number(const HfKeys& config, const std::string& key, const std::string& name, ModelSection& model) {
  if (!scaling_needs(model.rope_scaling, name)) return false;
  const HfKeys::Json& value = config.at(key).at(name);
  for (const ScalingNumber& number : kScalingNumbers) {
    if (name == number.theirs) return config.read(value, key, model.*number.value, number.ours), true;
  }
  if (name == kOriginalContext) return config.read(value, key, model.rope_original_context, "rope_original_context"), true;
  return false;
}

void require_scaling_numbers(const HfKeys& config, const std::string& key, const std::string& scaling) {
  const auto require = [&](const char* name) {
    if (scaling_needs(scaling, name) && (!config.at(key).contains(name) || config.at(key).at(name).is_null()))
      config.refuse(key, fmt::format("{} without {}", scaling, name));
  };
  for (const ScalingNumber& number : kScalingNumbers) require(number.theirs);
  require(kOriginalContext);
}

// What rope_scaling or rope_parameters says. Returns whether a theta is among it.
bool read_rope_object(const HfKeys& config, const std::string& key, double& theta, ModelSection& model) {
  const HfKeys::Json& rope = config.at(key);
  if (!rope.is_object()) config.refuse(key, "not an object");
  if (const std::string scaling = scaling_of(config, key); scaling != "none") {
    model.rope_scaling = scaling;
    require_scaling_numbers(config, key, scaling);
  }
  bool has_theta = false;
  for (const auto& [name, value] : rope.items()) {
    if (value.is_null() || name == "rope_type" || name == "type") continue;
    if (name == "rope_theta") {
      config.read(value, key, theta, "rope_theta");
      has_theta = true;
    } else if (name == "partial_rotary_factor") {
      if (value != 1.0) config.refuse(key, "Cohort rotates whole heads");
    } else if (value.is_object()) {
      config.refuse(key, fmt::format("{}: Cohort has the same rotary positions in all layers", name));
    } else if (!read_scaling_number(config, key, name, model)) {
      config.refuse(key, fmt::format("{} does not belong to rotary positions of type {}", name, model.rope_scaling));
    }
  }
  return has_theta;
}

nlohmann::ordered_json rope_scaling_json(const ModelSection& model) {
  if (model.rope_scaling == "none") return nullptr;
  nlohmann::ordered_json json{{"rope_type", model.rope_scaling}};
  for (const ScalingNumber& number : kScalingNumbers) {
    if (scaling_needs(model.rope_scaling, number.theirs)) json[number.theirs] = model.*number.value;
  }
  if (scaling_needs(model.rope_scaling, kOriginalContext)) json[kOriginalContext] = model.rope_original_context;
  return json;
}

}  // namespace

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
          {"rope_scaling", rope_scaling_json(model)},
          {"attention_bias", false},
          {"attention_dropout", 0.0}};
}

// Older files have rope_theta and rope_scaling; newer ones both in rope_parameters, where the type is "default" if left out.
void read_rope(const HfKeys& config, ModelSection& model) {
  bool known = config.has("rope_theta");
  if (known) config.read(config.at("rope_theta"), "rope_theta", model.rope_theta, "rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    double theta = model.rope_theta;
    const bool has_theta = read_rope_object(config, key, theta, model);
    const HfKeys::Json& rope = config.at(key);
    if (key == std::string_view("rope_scaling") && !rope.empty() && !rope.contains("rope_type") && !rope.contains("type")) {
      config.refuse(key, "no rope_type");
    }
    if (has_theta && known && theta != model.rope_theta) {
      config.refuse(key, fmt::format("rope_theta is {} elsewhere in the file: remove the wrong one", model.rope_theta));
    }
    model.rope_theta = theta;
    known = known || has_theta;
  }
}

}  // namespace cohort
