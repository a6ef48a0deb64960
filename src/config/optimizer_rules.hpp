// What a run file may say of each optimizer, and what checkpoints and plans must know of it without running it. The object of an
// optimizer stands in its folder, src/optim/KIND; all else asks here, and compares optimizer.kind with no name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "config/key_spec.hpp"

namespace cohort {

/// What the optimizer keeps of each element of a parameter from step to step, zero before the first: so it has the parameter's
/// shape, and is divided, saved and resharded as the parameter is.
struct SlotSpec {
  std::string name;  // in checkpoints, as /optim/NAME/PARAMETER: not to be changed
  DType dtype = DType::f32;
};

struct OptimizerRules {
  std::string kind;  // optimizer.kind, and the folder's name
  std::string help;  // what it is, in a few words
  /// The keys of [optimizer] that several optimizers take; ranges and meanings stand in config/optimizer_keys.cpp.
  std::vector<std::string> keys;
  std::vector<OwnKey> own_keys = {};
  std::vector<SlotSpec> slots;
  /// The update of an element depends on its whole matrix. It is meant for the matrices of blocks, and `others` is the optimizer
  /// of all other parameters, unless a group of the run file says otherwise.
  bool whole_matrices = false;
  std::string others = {};
  std::vector<std::string> deepspeed_names = {};  // optimizer.type of DeepSpeed's configuration files

  bool takes(std::string_view key) const;
  /// Of all slots, for each element.
  Bytes slot_bytes() const;
};

/// All optimizers, in alphabetical order. Defined in src/optim.
const std::vector<const OptimizerRules*>& all_optimizer_rules();

/// Error (config) if there is no such optimizer.
const OptimizerRules& optimizer_rules_of(std::string_view kind);

/// The value of a key of the optimizer's own.
template <class T>
const T& own_key(const OptimizerSection& optimizer, const std::string& name) {
  return std::get<T>(optimizer.own.at(name));
}

/// What the section says of the parameters of a group: its keys with the group's in their place, and no groups.
OptimizerSection settings_of(const OptimizerSection& section, const OptimizerGroup& group);

/// The optimizers that a group, or what is in no group, may use: its own, and that of other parameters than matrices of blocks.
std::vector<const OptimizerRules*> kinds_of(const OptimizerSection& settings);
/// All of a run.
std::vector<const OptimizerRules*> optimizers_at_work(const OptimizerSection& section);

/// Refuses keys of groups that none of the group's optimizers takes. Error (config) begins with where the group was set.
void check_optimizer_groups(const OptimizerSection& section);

}  // namespace cohort
