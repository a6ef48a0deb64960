// transformers' GPT2LMHeadModel. Its Conv1D has [inputs, outputs], so c_attn, c_proj and c_fc are transposed, and c_attn has
// query, key and value side by side.
#include "models/hugging_face.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"

namespace cohort::gpt2 {
namespace {

ModelSection read(const HfKeys& config) {
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
  const HfKeys::Json dropout = config.has("resid_pdrop") ? config.at("resid_pdrop") : HfKeys::Json(0.1);
  config.read(dropout, "resid_pdrop", model.dropout, "dropout");
  for (const char* key : {"embd_pdrop", "attn_pdrop"}) {
    if ((config.has(key) ? config.at(key) : HfKeys::Json(0.1)) == dropout) continue;
    fail(ExitCode::checkpoint,
         "{}: {} differs from resid_pdrop = {}: Cohort's model has one dropout probability; make the three equal (they matter "
         "only in training)",
         config.file(), key, dropout.dump());
  }
  return model;
}

nlohmann::ordered_json write(const ModelSection& model) {
  return {{"vocab_size", model.vocabulary},
          {"n_positions", model.context},
          {"n_embd", model.width},
          {"n_layer", model.layers},
          {"n_head", model.heads},
          {"n_inner", model.ffn_width},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"resid_pdrop", model.dropout},
          {"embd_pdrop", model.dropout},
          {"attn_pdrop", model.dropout}};
}

void add_block(std::vector<Correspondence>& all, const std::string& there, const std::string& here) {
  for (const char* part : {".weight", ".bias"}) {
    const bool matrix = std::string(part) == ".weight";
    const auto add = [&](const char* theirs, std::vector<std::string> ours, bool transposed) {
      for (std::string& name : ours) name = here + name + part;
      all.push_back({there + theirs + part, std::move(ours), transposed});
    };
    add("ln_1", {"norm1"}, false);
    add("attn.c_attn", {"attention.query", "attention.key", "attention.value"}, matrix);
    add("attn.c_proj", {"attention.output"}, matrix);
    add("ln_2", {"norm2"}, false);
    add("mlp.c_fc", {"feed_forward.up"}, matrix);
    add("mlp.c_proj", {"feed_forward.down"}, matrix);
  }
}

std::vector<Correspondence> correspondences(const ModelSection& model) {
  std::vector<Correspondence> all{{"transformer.wte.weight", {"embedding.weight"}},
                                  {"transformer.wpe.weight", {"positions.weight"}}};
  for (Count layer = 0; layer < model.layers; ++layer)
    add_block(all, fmt::format("transformer.h.{}.", layer), fmt::format("blocks.{}.", layer));
  all.push_back({"transformer.ln_f.weight", {"norm.weight"}});
  all.push_back({"transformer.ln_f.bias", {"norm.bias"}});
  if (!model.tied_head) all.push_back({"lm_head.weight", {"head.weight"}});
  return all;
}

}  // namespace

const HuggingFaceForm& hugging_face() {
  static const HuggingFaceForm kForm{.model_type = "gpt2",
                                     .architecture = "GPT2LMHeadModel",
                                     .prefix = "transformer.",
                                     .read = read,
                                     .write = write,
                                     .correspondences = correspondences,
                                     .derived = {".attn.bias", ".attn.masked_bias"}};  // causal masks
  return kForm;
}

}  // namespace cohort::gpt2
