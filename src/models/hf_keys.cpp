#include "models/hf_keys.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

constexpr int kDepth = 16;  // of a config.json; transformers writes three or four levels
constexpr std::size_t kShownLetters = 200;

// What transformers writes into every config.json and its GPT-2 and Llama do not compute with: how generate() picks tokens, what
// forward() returns, names, token ids, the heads of classifiers, how the same sums are divided or stored.
constexpr std::string_view kHarmless[] = {"architectures",
                                          "attn_implementation",
                                          "bad_words_ids",
                                          "begin_suppress_tokens",
                                          "bos_token_id",
                                          "chunk_size_feed_forward",
                                          "decoder_start_token_id",
                                          "diversity_penalty",
                                          "do_sample",
                                          "dtype",
                                          "early_stopping",
                                          "encoder_no_repeat_ngram_size",
                                          "eos_token_id",
                                          "exponential_decay_length_penalty",
                                          "finetuning_task",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "gradient_checkpointing",
                                          "id2label",
                                          "initializer_range",
                                          "is_decoder",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "length_penalty",
                                          "max_length",
                                          "min_length",
                                          "n_ctx",
                                          "no_repeat_ngram_size",
                                          "num_beam_groups",
                                          "num_beams",
                                          "num_labels",
                                          "num_return_sequences",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_scores",
                                          "pad_token_id",
                                          "prefix",
                                          "pretraining_tp",
                                          "problem_type",
                                          "remove_invalid_values",
                                          "reorder_and_upcast_attn",
                                          "repetition_penalty",
                                          "return_dict",
                                          "return_dict_in_generate",
                                          "sep_token_id",
                                          "suppress_tokens",
                                          "task_specific_params",
                                          "temperature",
                                          "tf_legacy_loss",
                                          "tie_encoder_decoder",
                                          "tokenizer_class",
                                          "top_k",
                                          "top_p",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "typical_p",
                                          "use_bfloat16",
                                          "use_cache"};

// With an underscore begins what transformers notes for itself; summary_ is of a classifier's head.
bool is_harmless(std::string_view key) {
  return key.starts_with('_') || key.starts_with("summary_") ||
         std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless);
}

}  // namespace

HfKeys::HfKeys(std::string file)
    : file_(std::move(file)), json_(parse_strict_json(read_file(file_, "configuration"), file_, kDepth)) {
  if (!json_.is_object()) fail(ExitCode::checkpoint, "{}: not a JSON object", file_);
}

bool HfKeys::has(const std::string& key) const {
  asked_.insert(key);
  return json_.contains(key) && !json_[key].is_null();
}

std::string HfKeys::text(const std::string& key, const char* otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_string()) refuse(key, "not a string");
  return json_[key].get<std::string>();
}

bool HfKeys::flag(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_boolean()) refuse(key, "neither true nor false");
  return json_[key].get<bool>();
}

void HfKeys::read(const std::string& key, Count& size, const std::string& ours) const {
  if (!has(key)) fail(ExitCode::checkpoint, "{}: {} is missing", file_, key);
  read(json_[key], key, size, ours);
}

void HfKeys::read(const Json& value, const std::string& key, Count& size, const std::string& ours) const {
  const auto& range = std::get<IntegerRange>(find_key("model." + ours)->allowed);
  const bool fits = value.is_number_integer() && value >= range.low && value <= range.high;
  if (!fits) refuse(key, fmt::format("not an integer from {} to {}", range.low, range.high));
  size = value.get<Count>();
}

void HfKeys::read(const Json& value, const std::string& key, double& number, const std::string& ours) const {
  const auto& range = std::get<NumberRange>(find_key("model." + ours)->allowed);
  number = value.is_number() ? value.get<double>() : range.low - 1.0;
  const bool low_enough = range.high_open ? number < range.high : number <= range.high;
  const bool high_enough = range.low_open ? number > range.low : number >= range.low;
  if (!low_enough || !high_enough) refuse(key, fmt::format("not a number from {} to {}", range.low, range.high));
}

void HfKeys::require(const std::string& key, std::initializer_list<Json> allowed) const {
  if (!has(key)) return;
  if (std::find(allowed.begin(), allowed.end(), json_[key]) != allowed.end()) return;
  std::vector<std::string> names;
  for (const Json& value : allowed) names.push_back(value.dump());
  refuse(key, names.empty() ? "Cohort's model has none" : fmt::format("Cohort's model has {}", join(names, " or ")));
}

void HfKeys::refuse_others() const {
  for (const auto& [key, value] : json_.items()) {
    if (value.is_null() || asked_.contains(key) || is_harmless(key)) continue;
    refuse(key, "unknown key, which may change what the model computes; if it does not, delete it from the file");
  }
}

void HfKeys::refuse(const std::string& key, const std::string& why) const {
  std::string value = json_[key].dump(-1, ' ', true, Json::error_handler_t::replace);
  if (value.size() > kShownLetters) value = value.substr(0, kShownLetters) + " ...";
  fail(ExitCode::checkpoint, "{}: \"{}\": {}: {}", file_, key, value, why);
}

}  // namespace cohort
