#include "config/read_value.hpp"

#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/data_mixture.hpp"
#include "config/optimizer_groups.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_range(const KeySpec& key, const toml::node& node, const std::string& where) {
  fail(ExitCode::config, "{}: {} is out of range: it must be {}, but is {}", where, key.full_name(), expected_value(key),
       found_value(node));
}

// An integer, or a number without a fraction, as 1e3 is in TOML.
std::int64_t read_integer(const KeySpec& key, const toml::node& node, const std::string& where) {
  constexpr double kAllExact = 9007199254740992.0;  // 2^53: up to here doubles hold every integer
  std::optional<std::int64_t> value = node.value_exact<std::int64_t>();
  if (const auto number = node.value_exact<double>(); number && std::trunc(*number) == *number && std::abs(*number) <= kAllExact)
    value = static_cast<std::int64_t>(*number);
  if (!value) fail_type(key, node, where);
  const auto& range = std::get<IntegerRange>(key.allowed);
  if (*value < range.low || *value > range.high) fail_range(key, node, where);
  return *value;
}

double read_number(const KeySpec& key, const toml::node& node, const std::string& where) {
  if (!node.is_number()) fail_type(key, node, where);
  const double value = *node.value<double>();  // an integer is a number too
  const auto& range = std::get<NumberRange>(key.allowed);
  const bool high_enough = range.low_open ? value > range.low : value >= range.low;
  const bool low_enough = range.high_open ? value < range.high : value <= range.high;
  if (!(high_enough && low_enough)) fail_range(key, node, where);  // NaN ends up here: it compares false with everything
  return value;
}

// true or false; in an override of a key that has names it is a word like them.
std::optional<bool> flag_in(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  const auto* text = node.as_string();
  if (text == nullptr || (text->get() != "true" && text->get() != "false")) return std::nullopt;
  return text->get() == "true";
}

std::string read_string(const KeySpec& key, const toml::node& node, const std::string& where) {
  const auto* choices = std::get_if<Choices>(&key.allowed);
  if (choices != nullptr && !choices->if_true.empty()) {
    if (const std::optional<bool> flag = flag_in(node)) return *flag ? choices->if_true : choices->if_false;
  }
  const auto* text = node.as_string();
  if (text == nullptr) fail_type(key, node, where);
  if (choices == nullptr) return text->get();
  for (const std::string& name : choices->names) {
    if (text->get() == name) return name;
  }
  const std::string nearest = nearest_name(text->get(), choices->names);
  fail(ExitCode::config, "{}: {} must be {}, but is {}{}", where, key.full_name(), expected_value(key), found_value(node),
       nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
}

}  // namespace

std::string found_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("the string {}", toml_string(text->get()));
  if (const auto* value = node.as_integer()) return fmt::format("the integer {}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("the number {}", value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

std::string place(const std::string& source, const toml::source_region& region) {
  return fmt::format("{}:{}", source, region.begin.line);
}

std::string line_of(const toml::source_region& region, const std::string& where) {
  const bool in_file = region.path != nullptr && !region.path->empty();
  return in_file ? place(*region.path, region) : where;
}

void read_value(const KeySpec& key, RunConfig& config, const toml::node& node, const std::string& where) {
  const Field field = key.field(config);
  if (auto* const* text = std::get_if<std::string*>(&field)) {
    **text = read_string(key, node, where);
  } else if (auto* const* number = std::get_if<double*>(&field)) {
    **number = read_number(key, node, where);
  } else if (auto* const* count = std::get_if<Count*>(&field)) {
    **count = read_integer(key, node, where);
  } else if (auto* const* seed = std::get_if<std::uint64_t*>(&field)) {
    **seed = static_cast<std::uint64_t>(read_integer(key, node, where));
  } else if (auto* const* groups = std::get_if<std::vector<OptimizerGroup>*>(&field)) {
    **groups = read_groups(key, node, where);
  } else if (auto* const* sources = std::get_if<std::vector<DataSource>*>(&field)) {
    **sources = read_sources(key, node, where);
  } else if (auto* const* stages = std::get_if<std::vector<DataStage>*>(&field)) {
    **stages = read_stages(key, node, where);
  } else {
    const auto* flag = node.as_boolean();
    if (flag == nullptr) fail_type(key, node, where);
    *std::get<bool*>(field) = flag->get();
  }
}

void fail_type(const KeySpec& key, const toml::node& node, const std::string& where) {
  fail(ExitCode::config, "{}: {} must be {}, but is {}", where, key.full_name(), expected_value(key), found_value(node));
}

}  // namespace cohort
