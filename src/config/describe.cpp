#include "config/describe.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

// " [model.kind = gpt2 or llama]" for a key that has an effect only then.
std::string users_of(const KeySpec& key) {
  return key.only_with.key.empty() ? "" : fmt::format(" [{} = {}]", key.only_with.key, key.only_with.values_in_words());
}

}  // namespace

std::string to_toml(const RunConfig& config) {
  const RunConfig defaults;
  std::string text;
  for (const SectionSpec& section : all_sections()) {
    text += fmt::format("{}[{}]  # {}\n", text.empty() ? "" : "\n", section.name, section.help);
    for (const KeySpec& key : all_keys()) {
      if (key.section != section.name) continue;
      const std::string value = value_as_toml(key, config);
      const bool idle = !is_used(key, config) && value == value_as_toml(key, defaults);
      text += fmt::format("{:<34}  # {}{}\n", fmt::format("{}{} = {}", idle ? "# " : "", key.name, value), key.help,
                          idle ? users_of(key) : "");
    }
  }
  return text;
}

std::string describe_keys() {
  const RunConfig defaults;
  std::string text;
  for (const SectionSpec& section : all_sections()) {
    text += fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", section.name, section.help);
    Table table({"  key", "default", "allowed", "meaning"});
    for (const KeySpec& key : all_keys()) {
      if (key.section != section.name) continue;
      table.add({"  " + key.name, value_as_toml(key, defaults), expected_value(key), key.help + users_of(key)});
    }
    text += table.str(4);  // all columns are text
  }
  return text;
}

}  // namespace cohort
