#include "config/run_file.hpp"

#include <toml++/toml.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "config/data_mixture.hpp"
#include "config/optimizer_groups.hpp"
#include "config/read_value.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

// Sets the key to the node's value and notes where it came from.
void set_value(RunConfig& config, const KeySpec& key, const toml::node& node, const std::string& where) {
  read_value(key, config, node, where);
  config.origins[key.full_name()] = where;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const SectionSpec& section : all_sections()) names.push_back(section.name);
  return names;
}

[[noreturn]] void fail_unknown_section(std::string_view section, const std::string& where) {
  for (const KeySpec& key : all_keys()) {
    if (key.name == section) fail(ExitCode::config, "{}: the key '{}' belongs in the section [{}]", where, section, key.section);
  }
  const std::string nearest = nearest_name(section, section_names());
  fail(ExitCode::config, "{}: unknown section [{}]; {}", where, section,
       nearest.empty() ? "known sections: " + join(section_names()) : fmt::format("did you mean [{}]?", nearest));
}

// A key of earlier versions, whose number meant something else than that of its successor.
constexpr std::string_view kValidationBatches = "validation_batches";

[[noreturn]] void fail_unknown_key(std::string_view section, std::string_view name, const std::string& where) {
  if (section == "train" && name == kValidationBatches) {
    fail(ExitCode::config,
         "{}: train.{} counted micro-batches, so the loss depended on their size; use train.validation_samples: as many "
         "micro-batches times train.micro_batch",
         where, name);
  }
  std::vector<std::string> siblings;
  for (const KeySpec& key : all_keys()) {
    if (key.section == section) siblings.push_back(key.name);
  }
  const std::string nearest = nearest_name(name, siblings);
  if (!nearest.empty()) {
    fail(ExitCode::config, "{}: unknown key {}.{}; did you mean {}.{}?", where, section, name, section, nearest);
  }
  for (const KeySpec& key : all_keys()) {
    if (key.name == name) {
      fail(ExitCode::config, "{}: unknown key {}.{}; did you mean {}, in the section [{}]?", where, section, name,
           key.full_name(), key.section);
    }
  }
  fail(ExitCode::config, "{}: unknown key {}.{}; the keys of [{}] are {}", where, section, name, section, join(siblings));
}

bool is_section(std::string_view name) {
  for (const SectionSpec& section : all_sections()) {
    if (section.name == name) return true;
  }
  return false;
}

const KeySpec& key_named(std::string_view section, std::string_view name, const std::string& where) {
  if (!is_section(section)) fail_unknown_section(section, where);
  const KeySpec* key = find_key(section, name);
  if (key == nullptr) fail_unknown_key(section, name, where);
  return *key;
}

toml::table parse_document(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    fail(ExitCode::config, "{}:{}: not valid TOML, at column {}: {}", source, begin.line, begin.column, error.description());
  }
}

void read_section(RunConfig& config, const toml::key& name, const toml::node& node, const std::string& source) {
  const std::string where = place(source, name.source());
  if (!is_section(name.str())) fail_unknown_section(name.str(), where);
  const toml::table* section = node.as_table();
  if (section == nullptr) fail(ExitCode::config, "{}: [{}] must be a section, but is {}", where, name.str(), found_value(node));
  for (const auto& [key_name, value] : *section) {
    const std::string at = place(source, key_name.source());
    set_value(config, key_named(name.str(), key_name.str(), at), value, at);
  }
}

RunConfig read_document(const toml::table& document, const std::string& source, const std::vector<std::string>& overrides) {
  if (document.empty()) fail(ExitCode::config, "{}: the run file is empty; it needs at least the section [data]", source);
  RunConfig config;
  for (const auto& [name, node] : document) read_section(config, name, node, source);
  for (const std::string& override_text : overrides) apply_override(config, override_text);
  return config;
}

// The saved run file has all keys.
void replace_validation_batches(toml::table& document) {
  toml::table* train = document["train"].as_table();
  if (train == nullptr || !train->contains(kValidationBatches)) return;
  const double batches = (*train)[kValidationBatches].value_or(0.0), micro_batch = (*train)["micro_batch"].value_or(1.0);
  const double most = static_cast<double>(std::get<IntegerRange>(find_key("train.validation_samples")->allowed).high);
  train->insert_or_assign("validation_samples", static_cast<std::int64_t>(std::min(batches * micro_batch, most)));
  train->erase(kValidationBatches);
}

// The value of an override as a TOML document with the one key `value`.
toml::table parse_override_value(const KeySpec& key, const std::string& text, const std::string& where) {
  RunConfig scratch;
  const bool is_string = std::holds_alternative<std::string*>(key.field(scratch));
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const bool bare_word = is_string && !quoted;
  if (text.empty() && !is_string)
    fail(ExitCode::config, "{}: the value is missing; {} must be {}", where, key.full_name(), expected_value(key));
  try {
    toml::table document = toml::parse("value = " + (bare_word ? toml_string(text) : text));
    if (document.size() == 1) return document;
  } catch (const toml::parse_error&) {
    // said below, without the position in a document that the user has not written
  }
  fail(ExitCode::config, "{}: {} must be {}, but the value is not valid TOML", where, key.full_name(), expected_value(key));
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

constexpr std::string_view kUnset = "unset ";
constexpr std::string_view kGroupPrefix = "groups.";

void unset(RunConfig& config, const std::string& name) {
  const std::string where = "--unset " + name;
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || name.find('=') != std::string::npos)
    fail(ExitCode::config, "{}: give only the key, as section.key, for example train.global_batch", where);
  const KeySpec& key = key_named(name.substr(0, dot), name.substr(dot + 1), where);
  RunConfig defaults;
  std::visit(
      [&](auto* to) {
        using Pointer = decltype(to);
        *to = *std::get<Pointer>(key.field(defaults));
      },
      key.field(config));
  config.origins.erase(key.full_name());
}

}  // namespace

void apply_override(RunConfig& config, const std::string& text) {
  if (text.starts_with(kUnset)) return unset(config, trimmed(text.substr(kUnset.size())));
  const std::string where = "--set " + text;
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    fail(ExitCode::config, "{}: an override has the form section.key=value, for example train.steps=100", where);
  }
  apply_override(config, trimmed(text.substr(0, dot)), trimmed(text.substr(dot + 1, equals - dot - 1)),
                 trimmed(text.substr(equals + 1)), where);
}

void apply_override(RunConfig& config, const std::string& section, const std::string& name, const std::string& value,
                    const std::string& where) {
  if (section == "optimizer" && name.starts_with(kGroupPrefix)) {
    const GroupKey group = group_key_named(config.optimizer, name.substr(kGroupPrefix.size()), where);
    const toml::table document = parse_override_value(group.key, value, where);
    return set_group_value(*group.group, group.key, *document.get("value"), where);
  }
  if (section == "data" && is_mixture_key(name)) {
    const MixtureKey of_item = mixture_key_named(config.data, name, where);
    const toml::table document = parse_override_value(of_item.key, value, where);
    of_item.origin = where;
    return read_value(of_item.key, config, *document.get("value"), where);
  }
  const KeySpec& key = key_named(section, name, where);
  const toml::table document = parse_override_value(key, value, where);
  set_value(config, key, *document.get("value"), where);
}

RunConfig load_run_file(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return parse_run_file(read_file(path, "run file"), path.string(), overrides);
}

RunConfig parse_run_file(std::string_view text, const std::string& source, const std::vector<std::string>& overrides) {
  return read_document(parse_document(text, source), source, overrides);
}

RunConfig parse_saved_run_file(std::string_view text, const std::string& source, const std::vector<std::string>& overrides) {
  toml::table document = parse_document(text, source);
  replace_validation_batches(document);
  return read_document(document, source, overrides);
}

}  // namespace cohort
