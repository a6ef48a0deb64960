// config.json: what is written is read back, and keys that would change what a model computes are refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "interchange/hf_config.hpp"
#include "safetensors_fixture.hpp"

namespace cohort::test {
namespace {

using Json = nlohmann::json;

ModelSection gpt2() {
  ModelSection model;
  model.kind = "gpt2";
  model.layers = 3;
  model.width = 24;
  model.heads = 4;
  model.ffn_width = 40;
  model.context = 10;
  model.vocabulary = 77;
  model.tied_head = false;
  model.dropout = 0.25;
  model.norm_epsilon = 1e-3;
  return model;
}

ModelSection llama() {
  ModelSection model = gpt2();
  model.kind = "llama";
  model.kv_heads = 2;
  model.dropout = 0.0;
  model.rope_theta = 500000.0;
  return model;
}

ModelSection qwen3() {
  ModelSection model = llama();
  model.kind = "qwen3";
  model.own["head_size"] = Count{10};
  return model;
}

class HfConfig : public ::testing::Test {
 protected:
  ModelSection read(const Json& json) {
    write_bytes(file_, json.dump());
    return read_hf_config(file_);
  }
  static Json written(const ModelSection& model) { return Json::parse(hf_config_json(model, DType::f32)); }
  void refused(const ModelSection& model, const char* key, const Json& value, std::initializer_list<const char*> parts = {}) {
    Json json = written(model);
    json[key] = value;
    SCOPED_TRACE(json.dump());
    expect_error([&] { read(json); }, ExitCode::checkpoint, parts);
    expect_error([&] { read(json); }, ExitCode::checkpoint, {"config.json", key});
  }
  void accepted(const ModelSection& model, const char* key, const Json& value) {
    Json json = written(model);
    json[key] = value;
    EXPECT_EQ(read(json), model) << key << " = " << value;
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "config.json";
};

TEST_F(HfConfig, ReadBack) {
  for (ModelSection model : {gpt2(), llama(), qwen3()}) {
    EXPECT_EQ(read(written(model)), model);
    model.tied_head = true;
    EXPECT_EQ(read(written(model)), model);
  }
  EXPECT_EQ(Json::parse(hf_config_json(llama(), DType::bf16))["torch_dtype"], "bfloat16");
}

TEST_F(HfConfig, KeysLeftOutMeanWhatTransformersGivesThem) {
  Json json = written(gpt2());
  for (const char* key : {"tie_word_embeddings", "n_inner", "layer_norm_epsilon", "activation_function", "resid_pdrop",
                          "embd_pdrop", "attn_pdrop"}) {
    json.erase(key);
  }
  ModelSection expected = gpt2();
  expected.tied_head = true;
  expected.ffn_width = 4 * expected.width;
  expected.norm_epsilon = 1e-5;
  expected.dropout = 0.1;
  EXPECT_EQ(read(json), expected);
  json = written(llama());
  for (const char* key : {"tie_word_embeddings", "num_key_value_heads", "rms_norm_eps", "rope_theta", "head_dim"})
    json.erase(key);
  expected = llama();
  expected.kv_heads = expected.heads;
  expected.norm_epsilon = 1e-6;
  expected.rope_theta = 10000.0;
  EXPECT_EQ(read(json), expected);
}

TEST_F(HfConfig, Gpt2ThatOursIsNot) {
  accepted(gpt2(), "activation_function", "gelu_pytorch_tanh");
  refused(gpt2(), "activation_function", "gelu", {"\"gelu\"", "gelu_new"});
  refused(gpt2(), "activation_function", "relu");
  refused(gpt2(), "scale_attn_weights", false);
  refused(gpt2(), "scale_attn_by_inverse_layer_idx", true);
  refused(gpt2(), "add_cross_attention", true);
  refused(gpt2(), "attn_pdrop", 0.5, {"equal"});
  refused(gpt2(), "quantization_config", Json::object());
}

TEST_F(HfConfig, Qwen3) {
  Json json = written(qwen3());
  for (const char* key : {"head_dim", "tie_word_embeddings"}) json.erase(key);
  ModelSection expected = qwen3();
  expected.own["head_size"] = Count{128};
  EXPECT_EQ(read(json), expected);
  accepted(qwen3(), "max_window_layers", 28);
  accepted(qwen3(), "layer_types", Json::array({"full_attention", "full_attention"}));
  refused(qwen3(), "layer_types", Json::array({"full_attention", "sliding_attention"}), {"full_attention"});
  refused(qwen3(), "use_sliding_window", true);
  refused(qwen3(), "attention_bias", true);
  json["head_dim"] = 9;
  EXPECT_ERROR(read(json), ExitCode::checkpoint, "config.json", "head_size = 9 is odd", "8 and 10");
}

TEST_F(HfConfig, LlamaThatOursIsNot) {
  accepted(llama(), "rope_scaling", {{"rope_type", "default"}});
  accepted(llama(), "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500000.0}});
  accepted(llama(), "pretraining_tp", 2);  // another order of the same sums
  refused(llama(), "rope_scaling", {{"type", "linear"}}, {"linear without factor"});
  refused(llama(), "rope_scaling", {{"type", "linear"}, {"factor", nullptr}}, {"linear without factor"});
  refused(llama(), "rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, {"llama3 without low_freq_factor"});
  refused(llama(), "rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}, {"1 to"});
  refused(llama(), "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"low_freq_factor", 1.0}},
          {"low_freq_factor", "linear"});
  refused(llama(), "rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}, {"dynamic", "linear and llama3"});
  refused(llama(), "rope_scaling", {{"factor", 8.0}});
  refused(llama(), "rope_scaling", 3);
  refused(llama(), "rope_parameters", {{"rope_type", "yarn"}});
  refused(llama(), "rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}});
  refused(llama(), "attention_bias", true);
  refused(llama(), "mlp_bias", true);
  refused(llama(), "hidden_act", "gelu");
  refused(llama(), "sliding_window", 4096, {"none"});
  refused(llama(), "head_dim", 8, {"6"});
  refused(llama(), "attention_dropout", 0.1);
}

TEST_F(HfConfig, ThetaOfNewerFiles) {
  Json json = written(llama());
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1234.0}};
  EXPECT_EQ(read(json).rope_theta, 1234.0);
  json["rope_parameters"] = {{"rope_theta", 1234.0}, {"factor", nullptr}};  // transformers takes the type as default
  EXPECT_EQ(read(json).rope_theta, 1234.0);
}

TEST_F(HfConfig, ScaledPositions) {
  Json json = written(llama());
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  ModelSection model = llama();
  model.rope_scaling = "linear";
  model.rope_factor = 2.0;
  EXPECT_EQ(read(json), model);
  EXPECT_EQ(read(written(model)), model);
  json = written(llama());
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.5},
                          {"high_freq_factor", 5.0},
                          {"original_max_position_embeddings", 4096}};
  model.rope_scaling = "llama3";
  model.rope_factor = 32.0;
  model.rope_low_freq_factor = 1.5;
  model.rope_high_freq_factor = 5.0;
  model.rope_original_context = 4096;
  EXPECT_EQ(read(json), model);
  EXPECT_EQ(read(written(model)), model);
  json["rope_scaling"]["low_freq_factor"] = 6.0;
  EXPECT_ERROR(read(json), ExitCode::checkpoint, "config.json", "rope_low_freq_factor = 6", "rope_high_freq_factor = 5");
}

// Each of these was once taken for a theta of 10,000.
TEST_F(HfConfig, RotaryPositionsThatOursAreNot) {
  const Json plain{{"rope_type", "default"}, {"rope_theta", 1000000.0}};
  refused(llama(), "rope_parameters", {{"full_attention", plain}, {"sliding_attention", plain}},
          {"full_attention", "all layers"});
  refused(llama(), "rope_parameters", {{"rope_theta", 500000.0}, {"low_freq_factor", 1.0}}, {"low_freq_factor"});
  refused(llama(), "rope_parameters", {{"rope_theta", "500000"}});
  refused(llama(), "rope_parameters", {{"rope_type", 1}});
  refused(llama(), "rope_parameters", {{"rope_theta", 10000.0}}, {"500000", "elsewhere"});  // and rope_theta says another
  refused(llama(), "rope_scaling", {{"rope_theta", 500000.0}}, {"no rope_type"});
  refused(llama(), "rope_scaling", {{"short_factor", {1.0, 2.0}}}, {"short_factor"});
  accepted(llama(), "rope_scaling", Json::object());
}

// transformers 4.40 writes these, with these values, for models that ours equal.
TEST_F(HfConfig, KeysThatChangeNoResult) {
  const Json harmless = Json::parse(R"({"_name_or_path": "x", "architectures": ["X"], "begin_suppress_tokens": null,
    "chunk_size_feed_forward": 0, "id2label": {"0": "LABEL_0"}, "is_decoder": false, "max_length": 20, "num_beams": 1,
    "output_attentions": false, "pad_token_id": 3, "pretraining_tp": 2, "return_dict": true, "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"max_length": 50}}, "temperature": 0.7, "torch_dtype": "float16",
    "transformers_version": "4.40.2", "use_cache": false})");
  for (const auto& [key, value] : harmless.items()) {
    accepted(gpt2(), key.c_str(), value);
    accepted(llama(), key.c_str(), value);
  }
  for (const ModelSection& model : {gpt2(), llama()}) {
    accepted(model, "pruned_heads", Json::object());
    accepted(model, "is_encoder_decoder", false);
    accepted(model, "cross_attention_hidden_size", nullptr);
  }
}

// Keys of relatives of Llama and GPT-2, and of other versions: none may be passed over.
TEST_F(HfConfig, KeysThatNobodyHereComputesWith) {
  const Json unknown = Json::parse(R"({"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    "embedding_multiplier": 12.0, "residual_multiplier": 0.2, "attention_multiplier": 0.1, "logits_scaling": 8.0,
    "logit_scale": 0.06, "clip_qkv": 8.0, "use_qk_norm": true, "qk_layernorm": true, "parallel_attn": true, "alibi": true,
    "layer_norm_eps": 1e-3, "query_pre_attn_scalar": 256, "scale_embedding": true, "layer_types": ["sliding_attention"],
    "no_rope_layers": [1], "num_experts": 8, "num_local_experts": 8, "position_embedding_type": "relative_key",
    "rope_interleaved": true, "rotary_pct": 0.25, "multi_query": true, "auto_map": {"AutoModel": "x.Y"},
    "bias": true, "a_key_of_tomorrow": 1})");
  for (const ModelSection& model : {gpt2(), llama()}) {
    refused(model, "pruned_heads", {{"0", {1}}});
    refused(model, "is_encoder_decoder", true);
    refused(model, "cross_attention_hidden_size", 64);
    for (const auto& [key, value] : unknown.items()) {
      refused(model, key.c_str(), value, {"unknown key", "delete it"});
    }
  }
  refused(gpt2(), "rope_theta", 10000.0);
  refused(llama(), "scale_attn_weights", false);
}

TEST_F(HfConfig, SizesThatCannotBe) {
  refused(gpt2(), "n_layer", -1);
  refused(gpt2(), "n_layer", 1000000000);
  refused(gpt2(), "n_layer", "3");
  refused(gpt2(), "n_embd", 24.5);
  refused(gpt2(), "n_embd", nullptr, {"missing"});
  refused(gpt2(), "vocab_size", 1e30);
  refused(gpt2(), "layer_norm_epsilon", 0.0);
  refused(gpt2(), "resid_pdrop", 1.0);
  refused(gpt2(), "tie_word_embeddings", "yes");
  Json json = written(gpt2());
  json["n_head"] = 5;
  EXPECT_ERROR(read(json), ExitCode::checkpoint, "config.json", "heads", "24");
  json = written(llama());
  json["num_key_value_heads"] = 3;
  EXPECT_ERROR(read(json), ExitCode::checkpoint, "config.json", "kv_heads");
}

TEST_F(HfConfig, NoConfigAtAll) {
  EXPECT_ERROR(read_hf_config(folder_ / "nowhere.json"), ExitCode::io, "nowhere.json");
  write_bytes(file_, "{");
  EXPECT_ERROR(read_hf_config(file_), ExitCode::checkpoint, "config.json", "JSON");
  write_bytes(file_, R"({"model_type":"gpt2","n_inner":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}");
  EXPECT_ERROR(read_hf_config(file_), ExitCode::checkpoint, "config.json", "nested deeper");
  EXPECT_ERROR(read(Json::array()), ExitCode::checkpoint, "not a JSON object");
  EXPECT_ERROR(read({{"model_type", "mistral"}}), ExitCode::checkpoint, "mistral", "gpt2, llama");
  EXPECT_ERROR(read({{"model_type", 3}}), ExitCode::checkpoint, "model_type");
}

TEST_F(HfConfig, AnMlpIsNoModelOfTransformers) {
  ModelSection model;
  model.kind = "mlp";
  EXPECT_ERROR(hf_config_json(model, DType::f32), ExitCode::config, "mlp", "--format safetensors");
}

}  // namespace
}  // namespace cohort::test
