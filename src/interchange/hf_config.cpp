#include "interchange/hf_config.hpp"

#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/validate.hpp"
#include "models/family.hpp"

namespace cohort {
namespace {

std::string torch_name_of(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

// Error (checkpoint) if transformers calls no family here so.
const ModelFamily& family_with(std::string_view model_type, std::string_view file) {
  std::vector<std::string> known;
  for (const ModelFamily* family : all_model_families()) {
    if (family->hugging_face == nullptr) continue;
    if (family->hugging_face->model_type == model_type) return *family;
    known.push_back(family->hugging_face->model_type);
  }
  fail(ExitCode::checkpoint, "{}: \"model_type\": \"{}\" cannot be imported; supported: {}", file, model_type, join(known));
}

}  // namespace

const HuggingFaceForm& hugging_face_form_of(const ModelSection& model) {
  const HuggingFaceForm* form = family_of(model).hugging_face;
  if (form == nullptr) {
    fail(ExitCode::config, "Hugging Face's transformers has no {}: export it with --format safetensors", model.kind);
  }
  return *form;
}

std::string hf_config_json(const ModelSection& model, DType dtype) {
  const HuggingFaceForm& form = hugging_face_form_of(model);
  nlohmann::ordered_json json{{"model_type", form.model_type}};
  json.update(form.write(model));
  json["architectures"] = std::vector<std::string>{form.architecture};
  json["initializer_range"] = model.init_std;
  json["tie_word_embeddings"] = model.tied_head;
  json["torch_dtype"] = torch_name_of(dtype);
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[token] = nullptr;
  return json.dump(2) + "\n";
}

ModelSection read_hf_config(const std::filesystem::path& file) {
  const HfKeys config(file.string());
  const ModelFamily& family = family_with(config.text("model_type", ""), file.string());
  if (config.has("quantization_config")) config.refuse("quantization_config", "quantized weights cannot be imported");
  config.require("add_cross_attention", {false});
  config.require("cross_attention_hidden_size", {});
  config.require("is_encoder_decoder", {false});
  config.require("pruned_heads", {HfKeys::Json::object()});
  ModelSection model = family.hugging_face->read(config);
  model.kind = family.rules.kind;
  config.refuse_others();
  return resolved_model(model, file.string());
}

ModelSection resolved_model(const ModelSection& model, const std::string& where) {
  RunConfig config;
  config.model = model;
  config.data.kind = rules_of(model).data;
  config.data.tokens = "any";  // a run file must name one; it is not opened
  try {
    validate(config, 1);
  } catch (const Error& error) {
    fail(ExitCode::checkpoint, "{}: {}", where, error.what());
  }
  return config.model;
}

}  // namespace cohort
