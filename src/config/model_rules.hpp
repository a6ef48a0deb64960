// What a run file may say of each family of models, and what planning must know of a family without building a model of it. The
// object of a family stands in its folder, src/models/FAMILY; all else asks here, and compares model.kind with no name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

/// A key of [model] that several families may take; its range and meaning stand in config/schema.cpp.
struct SharedKey {
  std::string name;
  std::string zero_means = "";  // what the family makes of 0, where that is its own choice: "4 C"
};

struct AttentionSizes {
  Count heads;      // NH
  Count kv_heads;   // NKV, a divisor of heads
  Count head_size;  // HS
};

struct ModelRules {
  std::string kind;  // model.kind, and the folder's name
  std::string help;  // what it is, in a few words
  std::vector<SharedKey> keys;
  std::vector<OwnKey> own_keys = {};
  /// The keys that say how many parameters there are, in the order in which people want to read them. Checkpoints hold these
  /// words: a change of the list makes older checkpoints those of another model.
  std::vector<std::string> identity;
  std::string data = "tokens";  // the data.kind that it is trained on

  /// Checks the family's keys against each other and sets those that are 0 for "choose for me". Error (config) begins with where
  /// the key was set (where_set).
  void (*resolve)(RunConfig& config);
  /// Of a resolved section. Null: it is not a stack of attention blocks, so neither its matrices nor its samples nor its layers
  /// can be divided among ranks.
  AttentionSizes (*attention)(const ModelSection& model) = nullptr;

  bool is_decoder() const { return attention != nullptr; }
  bool takes(std::string_view key) const;
};

/// All families, in alphabetical order. Defined in src/models.
const std::vector<const ModelRules*>& all_model_rules();

/// Error (config) if there is no such family.
const ModelRules& rules_of(const ModelSection& model);

/// What one sample counts in rates, lengths and logs: its tokens, or 1, itself.
Count units_per_sample(const ModelSection& model);
/// "tokens" or "samples".
std::string_view units_name(const ModelSection& model);

/// Nothing for a family without attention.
std::optional<AttentionSizes> attention_of(const ModelSection& model);

/// "gpt2 layers=4 width=128 ...": what must be equal in a checkpoint and in the run that reads it.
std::string describe_model(const ModelSection& model);

/// The key's value, of a key of the family's own. The section must know it: all own keys of all families are there from the
/// beginning, at their defaults.
template <class T>
const T& own_key(const ModelSection& model, const std::string& name) {
  return std::get<T>(model.own.at(name));
}

}  // namespace cohort
