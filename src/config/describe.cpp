#include "config/describe.hpp"

#include <fmt/format.h>

#include <cctype>
#include <string_view>
#include <utility>
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

// Texts for a terminal keep to this many columns, but for what cannot be broken.
constexpr std::size_t kColumns = 100;

// A setting and what is said of it: beside it from `column` on, below it where it is too long. Each line begins with `mark`.
std::string beside(std::string setting, std::string_view said, std::size_t column, std::string_view mark) {
  std::string text;
  if (setting.size() + 2 > column) text = std::exchange(setting, "") + '\n';
  for (const std::string& line : wrapped(said, kColumns - column - mark.size()))
    text += fmt::format("{:<{}}{}{}\n", std::exchange(setting, ""), column, mark, line);
  return text;
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
      text += beside(fmt::format("{}{} = {}", idle ? "# " : "", key.name, value), help, 36, "# ");
    }
  }
  return text;
}

std::string describe_keys() {
  const RunConfig defaults;
  std::string text;
  for (const SectionSpec& section : all_sections()) {
    text += fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", section.name, section.help);
    for (const KeySpec& key : all_keys()) {
      if (key.section != section.name) continue;
      text += beside(fmt::format("  {} = {}", key.name, value_as_toml(key, defaults)), expected_value(key), 44, "");
      text += beside("", key.help + users_of(key), 6, "");
    }
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
