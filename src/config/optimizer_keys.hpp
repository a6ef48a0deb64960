// The keys of [optimizer]: those that optimizers share, with the optimizers that take each, and those that only one has. Part of
// the table in schema.cpp. And the keys of its groups.
#pragma once

#include <string_view>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

std::vector<KeySpec> optimizer_keys();

/// What a group may set besides `match`, under the section "optimizer.groups": the keys of [optimizer] that are a parameter's
/// matter, and learning_rate_factor.
const std::vector<KeySpec>& group_keys();

/// Whether it is a key that some optimizers take and others do not.
bool is_key_of_some_optimizers(std::string_view name);

}  // namespace cohort
