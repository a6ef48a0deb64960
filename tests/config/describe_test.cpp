// The schema, the resolved run file and the help all come from one table; here they are held against each other.
#include "config/describe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "base/text.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "config/validate.hpp"

namespace cohort {
namespace {

// Sets every key to a value that differs from its default and is allowed.
RunConfig all_changed() {
  struct Change {
    const KeySpec& key;
    void operator()(std::string* text) const {
      const auto* choices = std::get_if<Choices>(&key.allowed);
      if (choices == nullptr) {
        *text = "quote \" backslash \\ newline \n tab \t bell \a delete \x7f umlaut \xc3\xa4 # 'x'";
      } else {
        *text = *text == choices->names.back() ? choices->names.front() : choices->names.back();
      }
    }
    void operator()(bool* value) const { *value = !*value; }
    void operator()(Count* value) const { *value = std::get<IntegerRange>(key.allowed).high; }
    void operator()(std::uint64_t* value) const { *value = static_cast<std::uint64_t>(std::get<IntegerRange>(key.allowed).high); }
    void operator()(std::vector<OptimizerGroup>* groups) const {
      *groups = {{.match = {"*.bias", "a \" quote"}, .values = {{"weight_decay", 1.0 / 3.0}}, .origin = {}},
                 {.match = {"embedding.*"}, .values = {{"kind", groups_kind()}, {"learning_rate_factor", 0.1}}, .origin = {}}};
    }
    void operator()(std::vector<DataSource>* sources) const {
      *sources = {{.name = "web", .tokens = "a \" quote", .origin = {}}, {.name = "code", .tokens = "c.h5", .origin = {}}};
    }
    void operator()(std::vector<DataStage>* stages) const {
      *stages = {{.from_step = 1, .weights = {{"web", 1.0 / 3.0}}, .origin = {}},
                 {.from_step = 7, .weights = {{"code", 2.0}, {"web", 0.1}}, .origin = {}}};
    }
    static std::string groups_kind() { return RunConfig{}.optimizer.kind; }
    void operator()(double* value) const {
      const auto& range = std::get<NumberRange>(key.allowed);
      *value = range.low + (range.high - range.low) / 3.0;  // a double without a short decimal form
    }
  };
  RunConfig config;
  for (const KeySpec& key : all_keys()) std::visit(Change{key}, key.field(config));
  return config;
}

TEST(Schema, EveryMemberOfEverySectionIsDescribedOnce) {
  std::set<std::string> names;
  std::set<const void*> members;
  RunConfig config;
  Bytes bytes = 0;
  Bytes bools = 0;
  for (const KeySpec& key : all_keys()) {
    EXPECT_TRUE(names.insert(key.full_name()).second) << key.full_name() << " is described twice";
    std::visit(
        [&](auto* member) {
          EXPECT_TRUE(members.insert(member).second) << key.full_name();
          if (config.model.own.contains(key.name) || config.optimizer.own.contains(key.name)) return;  // elsewhere in memory
          bytes += static_cast<Bytes>(sizeof(*member));
          bools += std::is_same_v<decltype(member), bool*> ? 1 : 0;
        },
        key.field(config));
    EXPECT_FALSE(key.help.empty()) << key.full_name();
    EXPECT_EQ(find_key(key.full_name()), &key);
  }
  // What is not described is padding: at most 7 bytes after each bool. A forgotten member would be more (unless it is a bool in
  // the padding of another).
  // NOLINTBEGIN(bugprone-sizeof-container): what the member takes is meant, not what the container holds
  const auto sections = static_cast<Bytes>(sizeof(RunConfig) - sizeof(config.origins) - sizeof(config.model.own) -
                                           sizeof(config.optimizer.own) - sizeof(config.optimizer.learning_rate_factor));
  // NOLINTEND(bugprone-sizeof-container)
  EXPECT_LE(sections - bytes, 7 * bools) << "a member of RunConfig has no KeySpec";
  for (const SectionSpec& section : all_sections()) {
    bool found = false;
    for (const KeySpec& key : all_keys()) found = found || key.section == section.name;
    EXPECT_TRUE(found) << section.name;
  }
}

TEST(Schema, DefaultsAreAllowed) {
  // Writing the defaults and reading them back checks each against its range.
  EXPECT_EQ(parse_run_file(to_toml(RunConfig{}), "defaults"), RunConfig{});
}

TEST(Schema, ConditionsNameKeysThatExist) {
  RunConfig config;
  for (const KeySpec& key : all_keys()) {
    EXPECT_NO_THROW(is_used(key, config)) << key.full_name();
    if (key.only_with.key.empty() || key.section == "lora") continue;  // which go by a number
    const KeySpec& decider = *find_key(key.only_with.key);
    const Allowed& allowed = decider.allowed;
    if (std::holds_alternative<bool*>(decider.field(config))) {
      EXPECT_EQ(key.only_with.values, std::vector<std::string>{"true"}) << key.full_name();
      continue;
    }
    if (key.only_with.values.empty()) {
      EXPECT_TRUE(std::holds_alternative<IntegerRange>(allowed)) << key.full_name();
      continue;
    }
    const auto* choices = std::get_if<Choices>(&allowed);
    ASSERT_NE(choices, nullptr) << key.full_name();
    for (const std::string& value : key.only_with.values) {
      EXPECT_NE(std::find(choices->names.begin(), choices->names.end(), value), choices->names.end())
          << key.full_name() << ' ' << value;
    }
  }
}

TEST(ToToml, ReadsBackEqualWithEveryKeyChanged) {
  const RunConfig config = all_changed();
  for (const KeySpec& key : all_keys()) {
    if (key.full_name() == "optimizer.kind") continue;  // has one choice
    EXPECT_NE(value_as_toml(key, config), value_as_toml(key, RunConfig{})) << key.full_name();
  }
  EXPECT_EQ(parse_run_file(to_toml(config), "changed"), config);
}

TEST(ToToml, DoublesKeepEveryBit) {
  RunConfig config;
  for (const double value : {0.1, 1.0 / 3.0, 1e-30, 3e-4, 0.1 + 0.2, std::nextafter(1.0, 0.0), 1e-5}) {
    config.optimizer.epsilon = value;
    EXPECT_EQ(parse_run_file(to_toml(config), "doubles").optimizer.epsilon, value);
  }
}

TEST(ToToml, AValidatedRunIsAcceptedAgainAsItIs) {
  for (const char* text :
       {"data.tokens = \"x\"", "model.kind = \"llama\"\ndata.tokens = \"x\"", "model.kind = \"mlp\"\ndata.kind = \"two_moons\"",
        "schedule.kind = \"constant\"\ndata.tokens = \"x\"\nparallel.data = \"naive\""}) {
    RunConfig config = parse_run_file(text, "run.toml");
    validate(config, 4);
    RunConfig again = parse_run_file(to_toml(config), "resolved.toml");
    EXPECT_EQ(again, config) << text;
    validate(again, 4);
    EXPECT_EQ(again, config) << text;
  }
}

TEST(ToToml, WritesIdleKeysAsComments) {
  const std::string text = to_toml(RunConfig{});  // gpt2
  EXPECT_NE(text.find("\n# rope_theta = 10000.0 "), std::string::npos) << text;
  EXPECT_NE(text.find("\ndropout = 0.0 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nepsilon = 1e-08 "), std::string::npos) << text;
}

TEST(DescribeKeys, NamesEveryKeyItsDefaultAndItsRange) {
  const std::string text = describe_keys();
  const std::string words = std::regex_replace(text, std::regex("\\s+"), " ");
  for (const KeySpec& key : all_keys()) {
    EXPECT_NE(text.find("\n  " + key.name + " "), std::string::npos) << key.full_name();
    EXPECT_NE(words.find(expected_value(key)), std::string::npos) << key.full_name();
    EXPECT_NE(words.find(key.help), std::string::npos) << key.full_name();
  }
  for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST(ToToml, KeepsItsCommentsWithin100Columns) {
  for (const std::string& line : split(to_toml(RunConfig{}), '\n')) {
    const bool commented = !line.empty() && (line[0] == ' ' || line.find("# ", 1) != std::string::npos);
    EXPECT_TRUE(!commented || line.size() <= 100) << line;
  }
}

TEST(KeysAsMarkdown, HasARowOfFiveCellsForEveryKey) {
  const std::string text = keys_as_markdown();
  for (const KeySpec& key : all_keys()) {
    const std::size_t row = text.find("\n| `" + key.name + "` | ");
    ASSERT_NE(row, std::string::npos) << key.full_name();
    const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
    std::size_t bars = 0;
    for (std::size_t at = 0; at < line.size(); ++at) bars += line[at] == '|' && (at == 0 || line[at - 1] != '\\') ? 1 : 0;
    EXPECT_EQ(bars, 6U) << line;
  }
  EXPECT_NE(text.find("| `name` | string | `\"run\"` |"), std::string::npos) << text;
  EXPECT_NE(text.find("runs/\\<name\\>"), std::string::npos) << "or a browser takes it for a tag";
}

}  // namespace
}  // namespace cohort
