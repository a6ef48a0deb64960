// From a node of a TOML document to the value of a key.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "config/key_spec.hpp"

namespace cohort {

/// Sets the key's field of `config`. Error (config), which begins with `where`, if the type or the value is not allowed.
void read_value(const KeySpec& key, RunConfig& config, const toml::node& node, const std::string& where);

/// "run.toml:12"
std::string place(const std::string& source, const toml::source_region& region);
/// The line of a table or value within its document, "run.toml:12", or what is known of the whole.
std::string line_of(const toml::source_region& region, const std::string& where);
/// What was found, for messages: `the string "many"`.
std::string found_value(const toml::node& node);
/// Error (config): another type of value is wanted.
[[noreturn]] void fail_type(const KeySpec& key, const toml::node& node, const std::string& where);

}  // namespace cohort
