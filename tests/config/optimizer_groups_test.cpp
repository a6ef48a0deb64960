// Groups of parameters in the run file: what is read, what is refused and where, and that it can be written and read again.
#include "config/optimizer_groups.hpp"

#include <gtest/gtest.h>

#include "config/describe.hpp"
#include "config/optimizer_rules.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

constexpr const char* kGroups =
    "[data]\ntokens = \"x\"\n"
    "[optimizer]\nlearning_rate = 1e-2\n"
    "[[optimizer.groups]]\nmatch = [\"*.bias\", \"norm.*\"]\nweight_decay = 0.25\n"
    "[[optimizer.groups]]\nmatch = [\"embedding.*\"]\nlearning_rate_factor = 0.5\nkind = \"adamw\"\nbeta1 = 0.8\n";

RunConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  RunConfig config = parse_run_file(text, "run.toml", overrides);
  validate(config, 1);
  return config;
}

std::string group(const std::string& line) { return "[data]\ntokens = \"x\"\n[[optimizer.groups]]\n" + line + "\n"; }

TEST(OptimizerGroups, AreReadInOrderWithTheirLines) {
  const std::vector<OptimizerGroup> groups = parse(kGroups).optimizer.groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].match, (std::vector<std::string>{"*.bias", "norm.*"}));
  EXPECT_EQ(std::get<double>(groups[0].values.at("weight_decay")), 0.25);
  EXPECT_EQ(groups[0].origin, "run.toml:5");
  EXPECT_EQ(groups[1].origin, "run.toml:8");
  EXPECT_EQ(groups[1].values.size(), 3u);
}

TEST(OptimizerGroups, SettingsAreThoseOfTheSectionWithTheGroupsInTheirPlace) {
  const OptimizerSection section = parse(kGroups).optimizer;
  const OptimizerSection first = settings_of(section, section.groups[0]), second = settings_of(section, section.groups[1]);
  EXPECT_EQ(first.weight_decay, 0.25);
  EXPECT_EQ(first.beta1, section.beta1);
  EXPECT_EQ(first.learning_rate_factor, 1.0);
  EXPECT_EQ(second.learning_rate_factor, 0.5);
  EXPECT_EQ(second.beta1, 0.8);
  EXPECT_EQ(second.weight_decay, section.weight_decay);
  EXPECT_TRUE(first.groups.empty());
}

TEST(OptimizerGroups, ReadBackAsTheyWereWritten) {
  const RunConfig config = parse(kGroups);
  const RunConfig again = parse_run_file(to_toml(config), "config.toml");
  EXPECT_EQ(again, config);
  EXPECT_NE(to_toml(config).find("groups = [{ match = [\"*.bias\", \"norm.*\"], weight_decay = 0.25 }, "), std::string::npos);
  EXPECT_NE(parse(kGroups, {"optimizer.groups.1.weight_decay=0.5"}), config);
}

TEST(OptimizerGroups, AreSetAndUnsetFromTheCommandLine) {
  EXPECT_EQ(std::get<double>(parse(kGroups, {"optimizer.groups.2.beta1=0.7"}).optimizer.groups[1].values.at("beta1")), 0.7);
  EXPECT_TRUE(parse(kGroups, {"unset optimizer.groups"}).optimizer.groups.empty());
  const auto one = parse(kGroups, {"optimizer.groups=[{match=[\"head.*\"], learning_rate_factor=2}]"}).optimizer.groups;
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(std::get<double>(one[0].values.at("learning_rate_factor")), 2.0);
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups.3.beta1=0.7"}), ExitCode::config, "--set optimizer.groups.3", "has 2 groups");
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups.0.beta1=0.7"}), ExitCode::config, "no group 0");
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups.x.beta1=0.7"}), ExitCode::config, "the first group as 1");
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups.1.betta1=0.7"}), ExitCode::config, "did you mean beta1?");
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups.1.match=[\"a\"]"}), ExitCode::config, "write all groups");
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups=3"}), ExitCode::config, "--set", "array of tables", "the integer 3");
  EXPECT_ERROR(parse(kGroups, {"optimizer.groups=[{match=[\"a\"], beta1=2}]"}), ExitCode::config, "--set", "out of range");
}

TEST(OptimizerGroups, MistakesAreRefusedWithFileAndLine) {
  EXPECT_ERROR(parse(group("weight_decay = 0.1")), ExitCode::config, "run.toml:3:", "without match");
  EXPECT_ERROR(parse(group("match = []")), ExitCode::config, "run.toml:4:", "at least one");
  EXPECT_ERROR(parse(group("match = \"*.bias\"")), ExitCode::config, "run.toml:4:", "array of patterns", "*.bias");
  EXPECT_ERROR(parse(group("match = [3]")), ExitCode::config, "run.toml:4:", "the integer 3");
  EXPECT_ERROR(parse(group("match = [\"a\"]\nweight_decay = -1")), ExitCode::config,
               "run.toml:5:", "optimizer.groups.weight_decay is out of range", "-1");
  EXPECT_ERROR(parse(group("match = [\"a\"]\nweight_decay = true")), ExitCode::config, "run.toml:5:", "must be a number");
  EXPECT_ERROR(parse(group("match = [\"a\"]\nwieght_decay = 0")), ExitCode::config, "run.toml:5:", "unknown key wieght_decay",
               "did you mean weight_decay?");
  EXPECT_ERROR(parse(group("match = [\"a\"]\nlearning_rate = 0.1")), ExitCode::config, "run.toml:5:", "learning_rate_factor");
  EXPECT_ERROR(parse(group("match = [\"a\"]\nkind = \"adam\"")), ExitCode::config, "run.toml:5:", "did you mean \"adamw\"?");
  EXPECT_ERROR(parse("[data]\ntokens = \"x\"\n[optimizer]\ngroups = 1\n"), ExitCode::config, "run.toml:4:", "array of tables");
  EXPECT_ERROR(parse("[data]\ntokens = \"x\"\n[optimizer]\ngroups = [1]\n"), ExitCode::config, "run.toml:4:", "the integer 1");
  EXPECT_ERROR(parse("[data]\ntokens = \"x\"\n[optimizer]\nlearning_rate_factor = 2.0\n"), ExitCode::config,
               "run.toml:4:", "unknown key");
}

TEST(OptimizerGroups, KeysThatNoOptimizerOfTheGroupTakesAreRefused) {
  EXPECT_ERROR(parse(group("match = [\"a\"]\nmomentum = 0.9")), ExitCode::config, "run.toml:3:", "momentum has no effect",
               "adamw");
  EXPECT_ERROR(parse(group("match = [\"a\"]\nkind = \"muon\"\nbeta1 = 0.9")), ExitCode::config,
               "run.toml:3:", "beta1 has no effect");
  EXPECT_NO_THROW(parse(group("match = [\"a\"]\nkind = \"muon\"\nmomentum = 0.9")));
  EXPECT_ERROR(parse("[data]\ntokens = \"x\"\n[optimizer]\nmomentum = 0.9\n"), ExitCode::config,
               "run.toml:4:", "optimizer.momentum has no effect");
  // Muon leaves some parameters to AdamW, whose keys so have an effect.
  EXPECT_NO_THROW(parse("[data]\ntokens = \"x\"\n[optimizer]\nkind = \"muon\"\nmomentum = 0.9\nbeta1 = 0.8\n"));
  EXPECT_NO_THROW(parse(group("match = [\"a\"]\nkind = \"muon\""), {"optimizer.momentum=0.9"}));
}

TEST(OptimizerGroups, WholeMatricesAreNotOffloaded) {
  EXPECT_ERROR(
      parse("[data]\ntokens = \"x\"\n[optimizer]\nkind = \"muon\"\n[parallel]\ndata = \"zero2\"\noffload = \"optimizer\"\n"
            "offload_directory = \"x\"\n"),
      ExitCode::config, "run.toml:7:", "muon needs whole matrices");
}

TEST(Patterns, MatchWholeNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.bias", "blocks.0.norm1.bias"));
  EXPECT_TRUE(matches("blocks.?.norm*.bias", "blocks.0.norm1.bias"));
  EXPECT_TRUE(matches("blocks.*.query.*", "blocks.11.attention.query.weight"));
  EXPECT_TRUE(matches("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(matches("head.weight", "head.weight"));
  EXPECT_FALSE(matches("bias", "norm.bias"));
  EXPECT_FALSE(matches("norm", "norm.bias"));
  EXPECT_FALSE(matches("blocks.?.norm1.bias", "blocks.10.norm1.bias"));
  EXPECT_FALSE(matches("a*b*c", "a-b-b-d"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
}

}  // namespace
}  // namespace cohort::test
