#include "config/optimizer_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "config/key_ranges.hpp"
#include "config/optimizer_rules.hpp"

namespace cohort {
namespace {

std::string optimizers_in_words() {
  std::vector<std::string> words;
  for (const OptimizerRules* rules : all_optimizer_rules()) words.push_back(fmt::format("{} = {}", rules->kind, rules->help));
  return join(words, "; ");
}

std::vector<std::string> optimizer_kinds() {
  std::vector<std::string> kinds;
  for (const OptimizerRules* rules : all_optimizer_rules()) kinds.push_back(rules->kind);
  return kinds;
}

// The optimizers that take a key: nothing if all do.
KeySpec::OnlyWith optimizers_with(const std::string& key) {
  std::vector<std::string> kinds;
  for (const OptimizerRules* rules : all_optimizer_rules()) {
    if (rules->takes(key)) kinds.push_back(rules->kind);
  }
  if (kinds.size() == all_optimizer_rules().size()) return {};
  return {"optimizer.kind", kinds};
}

// The keys that optimizers do not share, each once.
std::vector<KeySpec> own_optimizer_keys() {
  std::vector<KeySpec> keys;
  for (const OptimizerRules* rules : all_optimizer_rules()) {
    for (const OwnKey& own : rules->own_keys) {
      if (std::any_of(keys.begin(), keys.end(), [&](const KeySpec& key) { return key.name == own.name; })) continue;
      const auto field = [name = own.name](RunConfig& config) {
        return std::visit([](auto& value) -> Field { return &value; }, config.optimizer.own.at(name));
      };
      keys.push_back({"optimizer", own.name, field, own.allowed, own.help, optimizers_with(own.name)});
    }
  }
  return keys;
}

std::vector<KeySpec> shared_optimizer_keys() {
  std::vector<KeySpec> keys{
      KEY(optimizer, beta1, kBelowOne, "decay of the mean of gradients", {}),
      KEY(optimizer, beta2, kBelowOne, "decay of the mean of squared gradients", {}),
      KEY(optimizer, epsilon, kEpsilon, "added to the root of the second mean", {}),
  };
  for (KeySpec& key : keys) key.only_with = optimizers_with(key.name);
  return keys;
}

}  // namespace

std::vector<KeySpec> optimizer_keys() {
  std::vector<KeySpec> keys{
      KEY(optimizer, kind, Choices{optimizer_kinds()}, "optimizer: " + optimizers_in_words(), {}),
      KEY(optimizer, learning_rate, kPositive, "peak learning rate", {}),
      KEY(optimizer, rate_scaling, Choices{{"none", "linear", "sqrt"}},
          "of the peak rate by global_batch / rate_batch: linear (Goyal et al. 2017) for SGD; sqrt (Hoffer et al. 2017, Malladi "
          "et al. 2022) for Adam and its kin",
          {}),
      KEY(optimizer, rate_batch, IntegerRange{0, 1'000'000'000}, "train.global_batch that learning_rate is for",
          KeySpec::OnlyWith{"optimizer.rate_scaling", {"linear", "sqrt"}}),
  };
  for (KeySpec& key : shared_optimizer_keys()) keys.push_back(std::move(key));
  keys.push_back(KEY(optimizer, weight_decay, kNotNegative, "decay of matrices; norms and biases do not decay", {}));
  for (KeySpec& key : own_optimizer_keys()) keys.push_back(std::move(key));
  keys.push_back(KEY(optimizer, groups, kAny,
                     "overrides for some parameters, as tables [[optimizer.groups]]: match = patterns of names (* any "
                     "characters, ? one; the first group that matches wins), and kind, weight_decay (then of all that match), "
                     "learning_rate_factor, or another key of [optimizer] that its optimizer has",
                     {}));
  return keys;
}

const std::vector<KeySpec>& group_keys() {
  static const std::vector<KeySpec> kKeys = [] {
    std::vector<KeySpec> keys = optimizer_keys();
    std::erase_if(keys, [](const KeySpec& key) {
      return key.name == "groups" || key.name == "learning_rate" || key.name == "rate_scaling" || key.name == "rate_batch";
    });
    keys.push_back(KEY(optimizer, learning_rate_factor, kNotNegative, "multiplies the learning rate", {}));
    for (KeySpec& key : keys) key.section = "optimizer.groups";
    return keys;
  }();
  return kKeys;
}

bool is_key_of_some_optimizers(std::string_view name) {
  for (const KeySpec& key : group_keys()) {
    if (key.name == name) return !key.only_with.key.empty();
  }
  return false;
}

}  // namespace cohort
