#include "config/data_mixture.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/key_ranges.hpp"
#include "config/read_value.hpp"
#include "config/schema.hpp"
#include "config/where_set.hpp"

namespace cohort {
namespace {

constexpr std::string_view kSources = "sources.", kStages = "stages.", kWeights = "weights";

// The item `i`, made if it is not there: a key's field must be found in any configuration.
template <class Item>
Item& item_at(std::vector<Item>& items, std::size_t i) {
  if (items.size() <= i) items.resize(i + 1);
  return items[i];
}

[[noreturn]] void fail_unknown(std::string_view name, const std::string& of, const std::vector<std::string>& known,
                               const std::string& where) {
  const std::string nearest = nearest_name(name, known);
  fail(ExitCode::config, "{}: unknown key {} in {}; {}", where, name, of,
       nearest.empty() ? "known keys: " + join(known) : fmt::format("did you mean {}?", nearest));
}

KeySpec source_key(std::size_t i, std::string_view name, const std::string& where) {
  if (name == "name")
    return {"data.sources", "name", [i](RunConfig& c) -> Field { return &item_at(c.data.sources, i).name; }, kAny, "", {}};
  if (name == "tokens")
    return {"data.sources", "tokens", [i](RunConfig& c) -> Field { return &item_at(c.data.sources, i).tokens; }, kAny, "", {}};
  fail_unknown(name, "a source of [data]", {"name", "tokens"}, where);
}

KeySpec weight_key(std::size_t i, const std::string& source) {
  const auto field = [i, source](RunConfig& c) -> Field { return &item_at(c.data.stages, i).weights[source]; };
  return {"data.stages.weights", source, field, kNotNegative, "", {}};
}

KeySpec stage_key(std::size_t i, std::string_view name, const std::string& where) {
  if (name == "from_step") {
    const auto field = [i](RunConfig& c) -> Field { return &item_at(c.data.stages, i).from_step; };
    return {"data.stages", "from_step", field, IntegerRange{1, kMaxSteps}, "", {}};
  }
  if (name.starts_with("weights.")) return weight_key(i, std::string(name.substr(kWeights.size() + 1)));
  fail_unknown(name, "a stage of [data]", {"from_step", "weights"}, where);
}

void read_weights(RunConfig& scratch, std::size_t stage, const toml::node& node, const std::string& where) {
  const toml::table* weights = node.as_table();
  if (weights == nullptr) {
    fail(ExitCode::config,
         "{}: weights must be a table, a number for each source, such as {{ web = 0.7, code = 0.3 }}, but is {}", where,
         found_value(node));
  }
  for (const auto& [name, weight] : *weights)
    read_value(weight_key(stage, std::string(name.str())), scratch, weight, line_of(name.source(), where));
}

// Calls `read` with each table of the array, its number and its line.
template <class Read>
void for_each_table(const KeySpec& key, const toml::node& node, const std::string& where, const Read& read) {
  const toml::array* all = node.as_array();
  if (all == nullptr) fail_type(key, node, where);
  for (std::size_t i = 0; i < all->size(); ++i) {
    const toml::table* table = (*all)[i].as_table();
    if (table == nullptr) fail_type(key, (*all)[i], where);
    read(*table, i, line_of(table->source(), where));
  }
}

void check_sources(const std::vector<DataSource>& sources) {
  std::vector<std::string> names;
  for (const DataSource& source : sources) {
    const bool safe = !source.name.empty() && std::ranges::all_of(source.name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
    if (!safe) {
      fail(ExitCode::config, "{}: a source of [data] needs a name of letters, digits, '_' and '-'; it is {}", source.origin,
           toml_string(source.name));
    }
    if (std::ranges::find(names, source.name) != names.end())
      fail(ExitCode::config, "{}: two sources of [data] have the name '{}'", source.origin, source.name);
    if (source.tokens.empty())
      fail(ExitCode::config, "{}: the source '{}' of [data] names no token file in tokens", source.origin, source.name);
    names.push_back(source.name);
  }
}

void check_weights(const DataStage& stage, const std::vector<DataSource>& sources) {
  std::vector<std::string> names;
  for (const DataSource& source : sources) names.push_back(source.name);
  double sum = 0.0;
  for (const auto& [name, weight] : stage.weights) {
    sum += weight;
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string nearest = nearest_name(name, names);
    fail(ExitCode::config, "{}: a stage of [data] has a weight for '{}', which is not a source; {}", stage.origin, name,
         nearest.empty() ? "the sources are " + join(names) : fmt::format("did you mean {}?", nearest));
  }
  if (sum <= 0.0) {
    fail(ExitCode::config, "{}: no source has a weight above 0 in this stage of [data]; the sources are {}", stage.origin,
         join(names));
  }
}

void check_stages(const DataSection& data) {
  if (data.stages.front().from_step != 1) {
    fail(ExitCode::config, "{}: the first stage of [data] begins at step {}, and must begin at step 1",
         data.stages.front().origin, data.stages.front().from_step);
  }
  for (std::size_t i = 0; i < data.stages.size(); ++i) {
    const DataStage& stage = data.stages[i];
    if (i > 0 && stage.from_step <= data.stages[i - 1].from_step) {
      fail(ExitCode::config, "{}: stages of [data] must be in the order of their steps: from_step = {} comes after {}",
           stage.origin, stage.from_step, data.stages[i - 1].from_step);
    }
    check_weights(stage, data.sources);
  }
}

}  // namespace

std::vector<DataSource> read_sources(const KeySpec& key, const toml::node& node, const std::string& where) {
  RunConfig scratch;
  for_each_table(key, node, where, [&](const toml::table& table, std::size_t i, const std::string& line) {
    item_at(scratch.data.sources, i).origin = line;
    for (const auto& [name, value] : table) {
      const std::string at = line_of(name.source(), where);
      read_value(source_key(i, name.str(), at), scratch, value, at);
    }
  });
  return scratch.data.sources;
}

std::vector<DataStage> read_stages(const KeySpec& key, const toml::node& node, const std::string& where) {
  RunConfig scratch;
  for_each_table(key, node, where, [&](const toml::table& table, std::size_t i, const std::string& line) {
    item_at(scratch.data.stages, i).origin = line;
    for (const auto& [name, value] : table) {
      const std::string at = line_of(name.source(), where);
      if (name.str() == kWeights) {
        read_weights(scratch, i, value, at);
      } else {
        read_value(stage_key(i, name.str(), at), scratch, value, at);
      }
    }
  });
  return scratch.data.stages;
}

std::string sources_as_toml(const std::vector<DataSource>& sources) {
  std::vector<std::string> tables;
  for (const DataSource& source : sources)
    tables.push_back(fmt::format("{{ name = {}, tokens = {} }}", toml_string(source.name), toml_string(source.tokens)));
  return fmt::format("[{}]", join(tables));
}

std::string stages_as_toml(const std::vector<DataStage>& stages) {
  std::vector<std::string> tables;
  for (const DataStage& stage : stages) {
    std::vector<std::string> weights;
    for (auto [name, weight] : stage.weights)
      weights.push_back(fmt::format("{} = {}", toml_string(name), field_as_toml(&weight)));
    tables.push_back(fmt::format("{{ from_step = {}, weights = {{ {} }} }}", stage.from_step, join(weights)));
  }
  return fmt::format("[{}]", join(tables));
}

bool is_mixture_key(std::string_view name) { return name.starts_with(kSources) || name.starts_with(kStages); }

MixtureKey mixture_key_named(DataSection& data, std::string_view name, const std::string& where) {
  const bool is_source = name.starts_with(kSources);
  const std::string_view word = is_source ? "source" : "stage";
  const std::string_view item = name.substr(is_source ? kSources.size() : kStages.size());
  const std::size_t items = is_source ? data.sources.size() : data.stages.size();
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
  const std::string_view rest = item.substr(static_cast<std::size_t>(end - item.data()));
  if (error != std::errc{} || !rest.starts_with('.'))
    fail(ExitCode::config, "{}: a key of a {} is written data.{}s.NUMBER.KEY, the first {} as 1", where, word, word, word);
  if (number < 1 || number > items)
    fail(ExitCode::config, "{}: no {} {}: the run file has {}", where, word, number, counted(static_cast<Count>(items), word));
  if (is_source) return {source_key(number - 1, rest.substr(1), where), data.sources[number - 1].origin};
  return {stage_key(number - 1, rest.substr(1), where), data.stages[number - 1].origin};
}

void check_data_files(const RunConfig& config) {
  const DataSection& data = config.data;
  const std::string where = where_set(config, {"data.tokens", "data.sources", "data.stages"});
  if (!data.tokens.empty() && !(data.sources.empty() && data.stages.empty())) {
    fail(ExitCode::config,
         "{}data.tokens names one token file, data.sources and data.stages describe a mixture of several: set one or the other; "
         "--unset data.sources --unset data.stages removes the mixture of a run file",
         where);
  }
  if (data.sources.empty() && !data.stages.empty())
    fail(ExitCode::config, "{}data.stages has weights, but there are no data.sources", where);
  if (!data.sources.empty() && data.stages.empty()) {
    fail(ExitCode::config,
         "{}data.sources without weights: add [[data.stages]] with from_step = 1 and weights = {{ {} = 1.0, ... }}", where,
         data.sources.front().name);
  }
  if (data.sources.empty()) {
    if (!data.tokens.empty()) return;
    fail(ExitCode::config, "{}data.tokens is not set: name a token file; `cohort data prepare` makes one from text", where);
  }
  check_sources(data.sources);
  check_stages(data);
}

}  // namespace cohort
