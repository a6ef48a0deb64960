#include "config/optimizer_groups.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/optimizer_keys.hpp"
#include "config/read_value.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

constexpr std::string_view kMatch = "match";

const KeySpec& group_key(std::string_view name, const std::string& where) {
  std::vector<std::string> names{std::string(kMatch)};
  for (const KeySpec& key : group_keys()) {
    if (key.name == name) return key;
    names.push_back(key.name);
  }
  if (name == "learning_rate") {
    fail(ExitCode::config,
         "{}: a group has no learning_rate: learning_rate_factor multiplies that of [optimizer], so that one schedule serves all",
         where);
  }
  const std::string nearest = nearest_name(name, names);
  fail(ExitCode::config, "{}: unknown key {} in a group of [optimizer]; {}", where, name,
       nearest.empty() ? "known keys: " + join(names) : fmt::format("did you mean {}?", nearest));
}

std::vector<std::string> read_patterns(const toml::node& node, const std::string& where) {
  const auto refuse = [&](const toml::node& found) {
    fail(ExitCode::config, "{}: match must be an array of patterns of parameters' names, such as [\"*.bias\"], but is {}", where,
         found_value(found));
  };
  const toml::array* all = node.as_array();
  if (all == nullptr) refuse(node);
  std::vector<std::string> patterns;
  for (const toml::node& one : *all) {
    const auto* text = one.as_string();
    if (text == nullptr) refuse(one);
    patterns.push_back(text->get());
  }
  if (patterns.empty()) fail(ExitCode::config, "{}: match = [] matches no parameter: give at least one pattern", where);
  return patterns;
}

OptimizerGroup read_group(const toml::table& table, const std::string& where) {
  OptimizerGroup group{.match = {}, .values = {}, .origin = where};
  for (const auto& [name, node] : table) {
    const std::string at = line_of(name.source(), where);
    if (name.str() == kMatch) {
      group.match = read_patterns(node, at);
    } else {
      set_group_value(group, group_key(name.str(), at), node, at);
    }
  }
  group.origin = where;
  if (group.match.empty())
    fail(ExitCode::config, "{}: a group of [optimizer] without match, which selects its parameters", where);
  return group;
}

std::string value_text(const KeyValue& value) {
  return std::visit([](auto copy) { return field_as_toml(&copy); }, value);
}

}  // namespace

std::vector<OptimizerGroup> read_groups(const KeySpec& key, const toml::node& node, const std::string& where) {
  const toml::array* all = node.as_array();
  if (all == nullptr) fail_type(key, node, where);
  std::vector<OptimizerGroup> groups;
  for (const toml::node& one : *all) {
    const toml::table* table = one.as_table();
    if (table == nullptr) fail_type(key, one, where);
    groups.push_back(read_group(*table, line_of(one.source(), where)));
  }
  return groups;
}

std::string groups_as_toml(const std::vector<OptimizerGroup>& groups) {
  std::vector<std::string> tables;
  for (const OptimizerGroup& group : groups) {
    std::vector<std::string> patterns;
    for (const std::string& pattern : group.match) patterns.push_back(toml_string(pattern));
    std::string text = fmt::format("{{ match = [{}]", join(patterns));
    for (const auto& [name, value] : group.values) text += fmt::format(", {} = {}", name, value_text(value));
    tables.push_back(text + " }");
  }
  return fmt::format("[{}]", join(tables));
}

GroupKey group_key_named(OptimizerSection& section, std::string_view name, const std::string& where) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const std::string_view rest = name.substr(static_cast<std::size_t>(end - name.data()));
  if (error != std::errc{} || !rest.starts_with('.'))
    fail(ExitCode::config, "{}: a key of a group is written optimizer.groups.NUMBER.KEY, the first group as 1", where);
  if (number < 1 || number > section.groups.size()) {
    fail(ExitCode::config, "{}: no group {}: the run file has {}", where, number,
         counted(static_cast<Count>(section.groups.size()), "group"));
  }
  if (rest == ".match")
    fail(ExitCode::config,
         "{}: match cannot be set on its own; write all groups, as in optimizer.groups=[{{match=[\"*.bias\"]}}]", where);
  return {&section.groups[number - 1], group_key(rest.substr(1), where)};
}

void set_group_value(OptimizerGroup& group, const KeySpec& key, const toml::node& node, const std::string& where) {
  RunConfig scratch;
  read_value(key, scratch, node, where);
  group.values[key.name] = std::visit(
      [](auto* value) -> KeyValue {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (kIsKeyValue<Value>) return *value;
        fail(ExitCode::internal, "a group of [optimizer] cannot hold such a value");
      },
      key.field(scratch));
  group.origin = where;
}

bool matches(std::string_view pattern, std::string_view name) {
  // The last * takes one character more whenever what follows it does not fit.
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace cohort
