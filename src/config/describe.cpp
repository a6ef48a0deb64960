#include "config/describe.hpp"

#include <fmt/format.h>

#include <cctype>
#include <string_view>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "config/rate_scaling.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

// " [model.kind = gpt2 or llama]" for a key that has an effect only then.
std::string users_of(const KeySpec& key) {
  return key.only_with.key.empty() ? "" : fmt::format(" [{} = {}]", key.only_with.key, key.only_with.values_in_words());
}

const char* type_of(const KeySpec& key) {
  struct Name {
    const char* operator()(const std::string* /*field*/) const { return "string"; }
    const char* operator()(const Count* /*field*/) const { return "integer"; }
    const char* operator()(const std::uint64_t* /*field*/) const { return "integer"; }
    const char* operator()(const double* /*field*/) const { return "number"; }
    const char* operator()(const bool* /*field*/) const { return "boolean"; }
    const char* operator()(const std::vector<OptimizerGroup>* /*field*/) const { return "tables"; }
    const char* operator()(const std::vector<DataSource>* /*field*/) const { return "tables"; }
    const char* operator()(const std::vector<DataStage>* /*field*/) const { return "tables"; }
  };
  RunConfig config;
  return std::visit(Name{}, key.field(config));
}

// As the text of a cell of a Markdown table: what would be markup is escaped.
std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char letter : text) {
    if (std::string_view("|*_<>[]`").find(letter) != std::string_view::npos) cell += '\\';
    cell += letter;
  }
  return cell;
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
      std::string help = key.help + (idle ? users_of(key) : "");
      if (const std::string rate = scaled_rate_in_words(config); !rate.empty() && key.full_name() == "optimizer.learning_rate")
        help += "; scaled: " + rate;
      text += fmt::format("{:<34}  # {}\n", fmt::format("{}{} = {}", idle ? "# " : "", key.name, value), help);
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

std::string keys_as_markdown() {
  const RunConfig defaults;
  std::string text;
  for (const SectionSpec& section : all_sections()) {
    std::string help = markdown_cell(section.help);
    help.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(help.front())));
    text += fmt::format("{}## `[{}]`\n\n{}.\n\n", text.empty() ? "" : "\n", section.name, help);
    text += "| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
    for (const KeySpec& key : all_keys()) {
      if (key.section != section.name) continue;
      text += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.name, type_of(key), value_as_toml(key, defaults),
                          markdown_cell(expected_value(key)), markdown_cell(key.help + users_of(key)));
    }
  }
  return text;
}

}  // namespace cohort
