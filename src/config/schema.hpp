// The one description of the run file: every section and key with its type, what values are allowed, one line of help, and when
// it applies. Parsing, --set, the resolved run file, the help text and the check for ignored keys all follow from this table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

struct SectionSpec {
  std::string name;
  std::string help;
};

/// In the order in which they are written and explained.
const std::vector<SectionSpec>& all_sections();
const std::vector<KeySpec>& all_keys();

/// Null if there is none.
const KeySpec* find_key(std::string_view section, std::string_view name);
/// By "section.key"; null if there is none.
const KeySpec* find_key(std::string_view full_name);

/// "an integer from 1 to 10000", "a number above 0 and at most 1000", "one of gpt2, llama, mlp", "true or false", "a string".
std::string expected_value(const KeySpec& key);
/// The key's value as TOML: strings quoted and escaped, doubles exact (they read back to the same bits).
std::string value_as_toml(const KeySpec& key, const RunConfig& config);
/// The same of one value.
std::string field_as_toml(const Field& field);
/// Whether the key has an effect in this run.
bool is_used(const KeySpec& key, const RunConfig& config);

/// A TOML basic string: quoted, with what TOML wants escaped.
std::string toml_string(std::string_view text);

}  // namespace cohort
