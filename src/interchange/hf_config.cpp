#include "interchange/hf_config.hpp"

#include <string_view>

#include "base/error.hpp"
#include "config/validate.hpp"
#include "interchange/hf_keys.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

std::string torch_name_of(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

ModelSection read_gpt2(const HfKeys& config) {
  ModelSection model;
  model.kind = "gpt2";
  config.read("n_layer", model.layers, "layers");
  config.read("n_embd", model.width, "width");
  config.read("n_head", model.heads, "heads");
  config.read("n_positions", model.context, "context");
  config.read("vocab_size", model.vocabulary, "vocabulary");
  if (config.has("n_inner")) config.read("n_inner", model.ffn_width, "ffn_width");
  if (config.has("layer_norm_epsilon")) {
    config.read(config.at("layer_norm_epsilon"), "layer_norm_epsilon", model.norm_epsilon, "norm_epsilon");
  }
  model.tied_head = config.flag("tie_word_embeddings", true);
  config.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"});  // both are the tanh form
  config.require("scale_attn_weights", {true});
  config.require("scale_attn_by_inverse_layer_idx", {false});
  // Three probabilities of dropout there, one here. Left out, each is 0.1.
  const Json dropout = config.has("resid_pdrop") ? config.at("resid_pdrop") : Json(0.1);
  config.read(dropout, "resid_pdrop", model.dropout, "dropout");
  for (const char* key : {"embd_pdrop", "attn_pdrop"}) {
    if ((config.has(key) ? config.at(key) : Json(0.1)) == dropout) continue;
    fail(
        ExitCode::checkpoint,
        "{}: {} differs from resid_pdrop = {}: a model here has one probability of dropout; make the three equal (they matter in "
        "training alone)",
        config.file(), key, dropout.dump());
  }
  return model;
}

// What stands in rope_scaling or rope_parameters: rotary positions here have a theta, and nothing else. Returns whether a theta
// is among it.
bool read_rope_object(const HfKeys& config, const std::string& key, double& theta) {
  const Json& rope = config.at(key);
  if (!rope.is_object()) config.refuse(key, "not an object");
  bool has_theta = false;
  for (const auto& [name, value] : rope.items()) {
    if (value.is_null()) continue;
    if (name == "rope_theta") {
      config.read(value, key, theta, "rope_theta");
      has_theta = true;
    } else if (name == "partial_rotary_factor") {
      if (value != 1.0) config.refuse(key, "here all of a head is rotated");
    } else if (name == "rope_type" || name == "type") {
      if (value != "default") config.refuse(key, "rotary positions here are not scaled");
    } else if (value.is_object()) {
      config.refuse(key, fmt::format("{}: here all layers have the same rotary positions", name));
    } else {
      config.refuse(key, fmt::format("{}: rotary positions here are not scaled", name));
    }
  }
  return has_theta;
}

// Older files have rope_theta and rope_scaling; newer ones both in rope_parameters, where the type is "default" if left out.
void read_rope(const HfKeys& config, ModelSection& model) {
  bool known = config.has("rope_theta");
  if (known) config.read(config.at("rope_theta"), "rope_theta", model.rope_theta, "rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    double theta = model.rope_theta;
    const bool has_theta = read_rope_object(config, key, theta);
    const Json& rope = config.at(key);
    if (key == std::string_view("rope_scaling") && !rope.empty() && !rope.contains("rope_type") && !rope.contains("type")) {
      config.refuse(key, "no rope_type: rotary positions here are not scaled");
    }
    if (has_theta && known && theta != model.rope_theta) {
      config.refuse(key, fmt::format("rope_theta is {} elsewhere in the file: remove the wrong one", model.rope_theta));
    }
    model.rope_theta = theta;
    known = known || has_theta;
  }
}

ModelSection read_llama(const HfKeys& config) {
  ModelSection model;
  model.kind = "llama";
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
  config.require("mlp_bias", {false});
  config.require("attention_dropout", {0.0});
  config.require("partial_rotary_factor", {1.0});
  config.require("sliding_window", {});
  config.require("head_dim", {model.heads > 0 ? model.width / model.heads : 0});
  return model;
}

}  // namespace

std::string hf_config_json(const ModelSection& model, DType dtype) {
  nlohmann::ordered_json json;
  if (model.kind == "gpt2") {
    json = {{"model_type", "gpt2"},         {"vocab_size", model.vocabulary},    {"n_positions", model.context},
            {"n_embd", model.width},        {"n_layer", model.layers},           {"n_head", model.heads},
            {"n_inner", model.ffn_width},   {"activation_function", "gelu_new"}, {"layer_norm_epsilon", model.norm_epsilon},
            {"resid_pdrop", model.dropout}, {"embd_pdrop", model.dropout},       {"attn_pdrop", model.dropout}};
  } else if (model.kind == "llama") {
    json = {{"model_type", "llama"},
            {"vocab_size", model.vocabulary},
            {"max_position_embeddings", model.context},
            {"hidden_size", model.width},
            {"intermediate_size", model.ffn_width},
            {"num_hidden_layers", model.layers},
            {"num_attention_heads", model.heads},
            {"num_key_value_heads", model.kv_heads},
            {"head_dim", model.width / model.heads},
            {"hidden_act", "silu"},
            {"rms_norm_eps", model.norm_epsilon},
            {"rope_theta", model.rope_theta},
            {"rope_scaling", nullptr},
            {"attention_bias", false},
            {"attention_dropout", 0.0},
            {"mlp_bias", false}};
  } else {
    fail(ExitCode::config, "an {} is no model of Hugging Face's transformers: export it with --format safetensors", model.kind);
  }
  json["architectures"] = std::vector<std::string>{model.kind == "gpt2" ? "GPT2LMHeadModel" : "LlamaForCausalLM"};
  json["initializer_range"] = model.init_std;
  json["tie_word_embeddings"] = model.tied_head;
  json["torch_dtype"] = torch_name_of(dtype);
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[token] = nullptr;
  return json.dump(2) + "\n";
}

ModelSection read_hf_config(const std::filesystem::path& file) {
  const HfKeys config(file.string());
  const std::string kind = config.text("model_type", "");
  if (kind != "gpt2" && kind != "llama") {
    fail(ExitCode::checkpoint, "{}: \"model_type\": \"{}\": gpt2 and llama can be imported", file.string(), kind);
  }
  if (config.has("quantization_config")) config.refuse("quantization_config", "quantized weights cannot be imported");
  config.require("add_cross_attention", {false});
  config.require("cross_attention_hidden_size", {});
  config.require("is_encoder_decoder", {false});
  config.require("pruned_heads", {Json::object()});
  const ModelSection model = kind == "gpt2" ? read_gpt2(config) : read_llama(config);
  config.refuse_others();
  return resolved_model(model, file.string());
}

ModelSection resolved_model(const ModelSection& model, const std::string& where) {
  RunConfig config;
  config.model = model;
  if (model.kind == "mlp") {
    config.data.kind = "two_moons";
  } else {
    config.data.tokens = "any";  // a run file must name one; it is not opened
  }
  try {
    validate(config, 1);
  } catch (const Error& error) {
    fail(ExitCode::checkpoint, "{}: {}", where, error.what());
  }
  return config.model;
}

}  // namespace cohort
