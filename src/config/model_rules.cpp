#include "config/model_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/lora_keys.hpp"
#include "config/schema.hpp"

namespace cohort {

bool ModelRules::takes(std::string_view key) const {
  const auto is_it = [&](const auto& one) { return one.name == key; };
  return std::any_of(keys.begin(), keys.end(), is_it) || std::any_of(own_keys.begin(), own_keys.end(), is_it);
}

const ModelRules& rules_of(const ModelSection& model) {
  std::vector<std::string> kinds;
  for (const ModelRules* rules : all_model_rules()) {
    if (rules->kind == model.kind) return *rules;
    kinds.push_back(rules->kind);
  }
  fail(ExitCode::config, "model.kind = \"{}\" is unknown; available: {}", model.kind, join(kinds));
}

std::map<std::string, KeyValue> own_keys_at_defaults() {
  std::map<std::string, KeyValue> values;
  for (const ModelRules* rules : all_model_rules()) {
    for (const OwnKey& key : rules->own_keys) values.emplace(key.name, key.standard);
  }
  return values;
}

Count units_per_sample(const ModelSection& model) { return rules_of(model).is_decoder() ? model.context : 1; }

std::string_view units_name(const ModelSection& model) { return rules_of(model).is_decoder() ? "tokens" : "samples"; }

std::optional<AttentionSizes> attention_of(const ModelSection& model) {
  const ModelRules& rules = rules_of(model);
  if (!rules.is_decoder()) return std::nullopt;
  return rules.attention(model);
}

std::string describe_model(const ModelSection& model) {
  RunConfig config;
  config.model = model;
  std::string text = model.kind;
  for (const std::string& key : rules_of(model).identity)
    text += fmt::format(" {}={}", key, value_as_toml(*find_key("model", key), config));
  return text + describe_lora(model.lora);
}

}  // namespace cohort
