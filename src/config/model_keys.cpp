#include "config/model_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "config/key_ranges.hpp"
#include "config/model_rules.hpp"

namespace cohort {
namespace {

std::vector<std::string> model_kinds() {
  std::vector<std::string> kinds;
  for (const ModelRules* rules : all_model_rules()) kinds.push_back(rules->kind);
  return kinds;
}

std::string families_in_words() {
  std::vector<std::string> words;
  for (const ModelRules* rules : all_model_rules()) words.push_back(fmt::format("{} = {}", rules->kind, rules->help));
  return join(words, "; ");
}

// The families that take a key of [model]: nothing if all do.
KeySpec::OnlyWith families_with(const std::string& key) {
  std::vector<std::string> kinds;
  for (const ModelRules* rules : all_model_rules()) {
    if (rules->takes(key)) kinds.push_back(rules->kind);
  }
  if (kinds.size() == all_model_rules().size()) return {};
  return {"model.kind", kinds};
}

// "; 0 = 4 C (gpt2), 8/3 C (llama)": what families make of a 0.
std::string meanings_of_zero(const std::string& key) {
  std::vector<std::pair<std::string, std::vector<std::string>>> meanings;  // with the families of each
  for (const ModelRules* rules : all_model_rules()) {
    for (const SharedKey& shared : rules->keys) {
      if (shared.name != key || shared.zero_means.empty()) continue;
      const auto same = [&](const auto& meaning) { return meaning.first == shared.zero_means; };
      auto found = std::find_if(meanings.begin(), meanings.end(), same);
      if (found == meanings.end()) found = meanings.insert(meanings.end(), {shared.zero_means, {}});
      found->second.push_back(rules->kind);
    }
  }
  std::vector<std::string> words;
  for (const auto& [meaning, kinds] : meanings) words.push_back(fmt::format("{} ({})", meaning, join(kinds)));
  return words.empty() ? "" : "; 0 = " + join(words);
}

// The keys that families do not share, each once.
std::vector<KeySpec> own_model_keys() {
  std::vector<KeySpec> keys;
  for (const ModelRules* rules : all_model_rules()) {
    for (const OwnKey& own : rules->own_keys) {
      if (std::any_of(keys.begin(), keys.end(), [&](const KeySpec& key) { return key.name == own.name; })) continue;
      const auto field = [name = own.name](RunConfig& config) {
        return std::visit([](auto& value) -> Field { return &value; }, config.model.own.at(name));
      };
      keys.push_back({"model", own.name, field, own.allowed, own.help, families_with(own.name)});
    }
  }
  return keys;
}

}  // namespace

std::vector<KeySpec> model_keys() {
  using OnlyWith = KeySpec::OnlyWith;
  const OnlyWith llama3{"model.rope_scaling", {"llama3"}};
  std::vector<KeySpec> keys{
      KEY(model, kind, Choices{model_kinds()}, "family: " + families_in_words(), {}),
      KEY(model, layers, IntegerRange{1, 10000}, "transformer blocks, or hidden linear layers", {}),
      KEY(model, width, IntegerRange{1, kMaxSize}, "model width C", {}),
      KEY(model, heads, IntegerRange{1, kMaxSize}, "query heads", {}),
      KEY(model, kv_heads, IntegerRange{0, kMaxSize}, "key and value heads, a divisor of heads; 0 = heads", {}),
      KEY(model, ffn_width, IntegerRange{0, kMaxSize}, "inner width of the feed-forward layer", {}),
      KEY(model, context, IntegerRange{1, kMaxSize}, "tokens per sample", {}),
      KEY(model, vocabulary, IntegerRange{0, kMaxSamples}, "tokens in the vocabulary; 0 = that of the token file", {}),
      KEY(model, tied_head, kAny, "the output projection shares the embedding's weight", {}),
      KEY(model, dropout, kBelowOne, "probability of zeroing an activation in training", {}),
      KEY(model, init_std, kPositive, "standard deviation of initial weights; residual projections: divided by sqrt(2 layers)",
          {}),
      KEY(model, rope_theta, (NumberRange{1.0, 1e12, true}), "base of the rotary position angles", {}),
      KEY(model, rope_scaling, (Choices{{"none", "linear", "llama3"}}),
          "slow rotary positions down by rope_factor: all of them, or as Llama 3.1 does, only slow ones", {}),
      KEY(model, rope_factor, (NumberRange{1.0, 1e6}), "how many times longer context is than that of the first training",
          (OnlyWith{"model.rope_scaling", {"linear", "llama3"}})),
      KEY(model, rope_low_freq_factor, (NumberRange{0.0, 1e6, true}),
          "pairs that turn less often than this in rope_original_context are slowed by rope_factor", llama3),
      KEY(model, rope_high_freq_factor, (NumberRange{0.0, 1e6, true}), "pairs that turn more often keep their speed", llama3),
      KEY(model, rope_original_context, IntegerRange{1, kMaxSize}, "context of the first training", llama3),
      KEY(model, norm_epsilon, kEpsilon, "added to the variance in LayerNorm and RMSNorm", {}),
      KEY(model, activation_checkpointing, (Choices{{"none", "selective", "full"}, /*if_true=*/"full", /*if_false=*/"none"}),
          "what backward recomputes instead of keeping it: full = each block but its input; selective = all but that and "
          "attention's output, little memory that in long contexts saves much work",
          {}),
      KEY(model, checkpointed_layers, IntegerRange{0, kMaxSize},
          "how many layers recompute: the first ones, or with activation_offload evenly spread ones; the others keep all, and "
          "alone are offloaded; 0 = all layers recompute",
          (OnlyWith{"model.activation_checkpointing", {"selective", "full"}})),
      KEY(model, activation_offload, kAny,
          "what blocks keep for backward waits in host memory: at most three blocks' worth stays on the device", {}),
      KEY(model, inputs, IntegerRange{1, kMaxSize}, "features per sample", {}),
      KEY(model, classes, IntegerRange{2, kMaxSize}, "number of classes", {}),
  };
  for (KeySpec& key : keys) {
    if (key.name == "kind") continue;
    if (key.only_with.key.empty()) key.only_with = families_with(key.name);
    key.help += meanings_of_zero(key.name);
  }
  for (KeySpec& key : own_model_keys()) keys.push_back(std::move(key));
  return keys;
}

std::string data_kinds_of_models() {
  std::map<std::string, std::vector<std::string>> kinds;
  for (const ModelRules* rules : all_model_rules()) kinds[rules->data].push_back(rules->kind);
  std::vector<std::string> words;
  for (const auto& [data, models] : kinds) words.push_back(fmt::format("{} for {}", data, join(models)));
  return join(words, "; ");
}

}  // namespace cohort
