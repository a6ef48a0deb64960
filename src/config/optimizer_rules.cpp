#include "config/optimizer_rules.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/optimizer_groups.hpp"
#include "config/optimizer_keys.hpp"

namespace cohort {
namespace {

void add_once(std::vector<const OptimizerRules*>& all, const std::vector<const OptimizerRules*>& more) {
  for (const OptimizerRules* rules : more) {
    if (std::find(all.begin(), all.end(), rules) == all.end()) all.push_back(rules);
  }
}

}  // namespace

bool OptimizerRules::takes(std::string_view key) const {
  return std::find(keys.begin(), keys.end(), key) != keys.end() ||
         std::any_of(own_keys.begin(), own_keys.end(), [&](const OwnKey& own) { return own.name == key; });
}

Bytes OptimizerRules::slot_bytes() const {
  Bytes bytes = 0;
  for (const SlotSpec& slot : slots) bytes += size_of(slot.dtype);
  return bytes;
}

const OptimizerRules& optimizer_rules_of(std::string_view kind) {
  std::vector<std::string> kinds;
  for (const OptimizerRules* rules : all_optimizer_rules()) {
    if (rules->kind == kind) return *rules;
    kinds.push_back(rules->kind);
  }
  fail(ExitCode::config, "optimizer.kind = \"{}\" is unknown; available: {}", kind, join(kinds));
}

std::map<std::string, KeyValue> own_optimizer_keys_at_defaults() {
  std::map<std::string, KeyValue> values;
  for (const OptimizerRules* rules : all_optimizer_rules()) {
    for (const OwnKey& key : rules->own_keys) values.emplace(key.name, key.standard);
  }
  return values;
}

OptimizerSection settings_of(const OptimizerSection& section, const OptimizerGroup& group) {
  RunConfig config;
  config.optimizer = section;
  config.optimizer.groups.clear();
  for (const KeySpec& key : group_keys()) {
    const auto found = group.values.find(key.name);
    if (found == group.values.end()) continue;
    std::visit(
        [&](auto* to) {
          using Value = std::remove_pointer_t<decltype(to)>;
          if constexpr (kIsKeyValue<Value>) *to = std::get<Value>(found->second);
        },
        key.field(config));
  }
  return config.optimizer;
}

std::vector<const OptimizerRules*> kinds_of(const OptimizerSection& settings) {
  std::vector<const OptimizerRules*> kinds{&optimizer_rules_of(settings.kind)};
  if (const std::string& others = kinds.front()->others; !others.empty()) kinds.push_back(&optimizer_rules_of(others));
  return kinds;
}

std::vector<const OptimizerRules*> optimizers_at_work(const OptimizerSection& section) {
  std::vector<const OptimizerRules*> kinds = kinds_of(section);
  for (const OptimizerGroup& group : section.groups) add_once(kinds, kinds_of(settings_of(section, group)));
  return kinds;
}

void check_optimizer_groups(const OptimizerSection& section) {
  for (const OptimizerGroup& group : section.groups) {
    // A group that names its optimizer means that one, for all of its parameters.
    const bool chosen = group.values.contains("kind");
    std::vector<const OptimizerRules*> kinds = kinds_of(settings_of(section, group));
    if (chosen) kinds.resize(1);
    for (const auto& [name, value] : group.values) {
      const auto takes = [&, key = name](const OptimizerRules* rules) { return rules->takes(key); };
      const bool shared_by_all = !is_key_of_some_optimizers(name);
      if (shared_by_all || std::any_of(kinds.begin(), kinds.end(), takes)) continue;
      fail(ExitCode::config, "{}: {} has no effect in this group, whose optimizer is {}; remove it", group.origin, name,
           kinds.front()->kind);
    }
  }
}

}  // namespace cohort
