#include "train/resume.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "config/validate.hpp"

namespace cohort {
namespace {

constexpr std::array<std::string_view, 4> kBindingSections{"model", "optimizer", "schedule", "precision"};
constexpr std::array<std::string_view, 3> kBindingKeys{"run.seed", "train.global_batch", "train.clip_norm"};
// Checkpointing of activations changes memory and time, not one bit of the result.
constexpr std::array<std::string_view, 1> kFreeKeys{"model.activation_checkpointing"};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool binds(const KeySpec& key) {
  const std::string name = key.full_name();
  return !contains(kFreeKeys, name) && (contains(kBindingSections, key.section) || contains(kBindingKeys, name));
}

}  // namespace

std::string describe_model(const ModelSection& config) {
  if (config.kind == "mlp") {
    return fmt::format("mlp inputs={} layers={} width={} classes={}", config.inputs, config.layers, config.width, config.classes);
  }
  return fmt::format("{} layers={} width={} heads={} kv_heads={} ffn_width={} context={} vocabulary={} tied_head={}", config.kind,
                     config.layers, config.width, config.heads, config.kv_heads, config.ffn_width, config.context,
                     config.vocabulary, config.tied_head);
}

std::vector<std::string> changes_since(const TrainingState& saved, const RunConfig& now, const std::string& data_now) {
  const RunConfig before = parse_saved_run_file(saved.run_file, "the checkpoint's run file");
  std::vector<std::string> changes;
  for (const KeySpec& key : all_keys()) {
    if (!binds(key)) continue;
    const std::string old_value = value_as_toml(key, before);
    const std::string new_value = value_as_toml(key, now);
    if (old_value != new_value)
      changes.push_back(fmt::format("{}: {} in the checkpoint, {} now", key.full_name(), old_value, new_value));
  }
  if (saved.data != data_now) changes.push_back(fmt::format("data: {} in the checkpoint, {} now", saved.data, data_now));
  return changes;
}

}  // namespace cohort
