#include "interchange/hf_config.hpp"

#include <initializer_list>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "config/schema.hpp"
#include "config/validate.hpp"
#include "interchange/strict_json.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr int kDepth = 16;  // of a config.json; transformers writes three or four levels

std::string torch_name_of(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

// A config.json that is asked for one key after the other. A key whose value is null counts as left out.
class Config {
 public:
  explicit Config(std::string file)
      : file_(std::move(file)), json_(parse_strict_json(read_file(file_, "configuration"), file_, kDepth)) {
    if (!json_.is_object()) fail(ExitCode::checkpoint, "{}: not a JSON object", file_);
  }
  const std::string& file() const { return file_; }

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const Json& at(const char* key) const { return json_[key]; }

  std::string text(const char* key, const char* otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_string()) refuse(key, "not a string");
    return json_[key].get<std::string>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_boolean()) refuse(key, "neither true nor false");
    return json_[key].get<bool>();
  }
  // Sets a size of the model, within the range that a run file allows.
  void read(const char* key, Count& size, const char* ours) const {
    if (!has(key)) fail(ExitCode::checkpoint, "{}: {} is missing", file_, key);
    const auto& range = std::get<IntegerRange>(find_key(std::string("model.") + ours)->allowed);
    const bool fits = json_[key].is_number_integer() && json_[key] >= range.low && json_[key] <= range.high;
    if (!fits) refuse(key, fmt::format("not an integer from {} to {}", range.low, range.high).c_str());
    size = json_[key].get<Count>();
  }
  void read(const Json& value, const char* key, double& number, const char* ours) const {
    const auto& range = std::get<NumberRange>(find_key(std::string("model.") + ours)->allowed);
    number = value.is_number() ? value.get<double>() : range.low - 1.0;
    const bool low_enough = range.high_open ? number < range.high : number <= range.high;
    const bool high_enough = range.low_open ? number > range.low : number >= range.low;
    if (!low_enough || !high_enough) refuse(key, fmt::format("not a number from {} to {}", range.low, range.high).c_str());
  }
  // The key may be left out, or have one of these values; anything else computes something that the models here do not.
  void require(const char* key, std::initializer_list<Json> allowed) const {
    if (!has(key)) return;
    for (const Json& value : allowed) {
      if (json_[key] == value) return;
    }
    std::vector<std::string> names;
    for (const Json& value : allowed) names.push_back(value.dump());
    refuse(key, names.empty() ? "the model here has none" : fmt::format("the model here has {}", join(names, " or ")).c_str());
  }
  [[noreturn]] void refuse(const char* key, const char* why) const {
    fail(ExitCode::checkpoint, "{}: \"{}\": {}: {}", file_, key, json_[key].dump(-1, ' ', false, Json::error_handler_t::replace),
         why);
  }

 private:
  std::string file_;
  Json json_;
};

ModelSection read_gpt2(const Config& config) {
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
  config.require("add_cross_attention", {false});
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

// Older files have rope_theta and rope_scaling; newer ones both in rope_parameters.
void read_rope(const Config& config, ModelSection& model) {
  if (config.has("rope_theta")) config.read(config.at("rope_theta"), "rope_theta", model.rope_theta, "rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const Json& rope = config.at(key);
    const char* type = rope.contains("rope_type") ? "rope_type" : "type";
    if (!rope.is_object() || rope.value(type, Json("default")) != "default" || rope.contains("factor")) {
      config.refuse(key, "rotary positions here are not scaled");
    }
    if (rope.value("partial_rotary_factor", Json(1.0)) != 1.0) config.refuse(key, "here all of a head is rotated");
    if (rope.contains("rope_theta")) config.read(rope["rope_theta"], key, model.rope_theta, "rope_theta");
  }
}

ModelSection read_llama(const Config& config) {
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
  const Config config(file.string());
  const std::string kind = config.text("model_type", "");
  if (kind != "gpt2" && kind != "llama") {
    fail(ExitCode::checkpoint, "{}: \"model_type\": \"{}\": gpt2 and llama can be imported", file.string(), kind);
  }
  if (config.has("quantization_config")) config.refuse("quantization_config", "quantized weights cannot be imported");
  return resolved_model(kind == "gpt2" ? read_gpt2(config) : read_llama(config), file.string());
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
