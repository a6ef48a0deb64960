// The groups of parameters of a run file, and the same as TOML again:
//
//   [[optimizer.groups]]
//   match = ["*.bias", "norm.*"]   # patterns of names: * any characters, ? one
//   weight_decay = 0.1
//
// A parameter belongs to the first group that has a pattern of its name; one that is in no group, to [optimizer] itself.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

/// `where` is where the groups begin; each knows its own line, if the document has lines. Error (config) names that.
std::vector<OptimizerGroup> read_groups(const KeySpec& key, const toml::node& node, const std::string& where);

/// `[{ match = ["*.bias"], weight_decay = 0.1 }]`: exact, reads back as the same.
std::string groups_as_toml(const std::vector<OptimizerGroup>& groups);

/// A key of one group, from "2.weight_decay": of the second. Error (config) if there is no such group or key.
struct GroupKey {
  OptimizerGroup* group;
  const KeySpec& key;
};
GroupKey group_key_named(OptimizerSection& section, std::string_view name, const std::string& where);
void set_group_value(OptimizerGroup& group, const KeySpec& key, const toml::node& node, const std::string& where);

/// Whether the pattern is of all of the name.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace cohort
