// Mixtures in the run file: what is read, what is refused and where, and that it can be written and read again.
#include "config/data_mixture.hpp"

#include <gtest/gtest.h>

#include "config/describe.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

const std::string kTwoSources =
    "[data]\n"
    "[[data.sources]]\nname = \"web\"\ntokens = \"w.h5\"\n"
    "[[data.sources]]\nname = \"code\"\ntokens = \"c.h5\"\n";
const std::string kMixture = kTwoSources +
                             "[[data.stages]]\nfrom_step = 1\nweights = { web = 0.7, code = 0.3 }\n"
                             "[[data.stages]]\nfrom_step = 501\n[data.stages.weights]\ncode = 2\n";

RunConfig parse_mixture(const std::string& text, const std::vector<std::string>& overrides = {}) {
  RunConfig config = parse_run_file(text, "run.toml", overrides);
  validate(config, 1);
  return config;
}

std::string stage(const std::string& lines) { return kTwoSources + "[[data.stages]]\n" + lines + "\n"; }

TEST(DataMixture, IsReadInOrderWithItsLines) {
  const DataSection data = parse_mixture(kMixture).data;
  ASSERT_EQ(data.sources.size(), 2u);
  EXPECT_EQ(data.sources[1].name, "code");
  EXPECT_EQ(data.sources[1].tokens, "c.h5");
  EXPECT_EQ(data.sources[1].origin, "run.toml:5");
  EXPECT_EQ(data.token_files(), (std::vector<std::string>{"w.h5", "c.h5"}));
  ASSERT_EQ(data.stages.size(), 2u);
  EXPECT_EQ(data.stages[0].weights, (std::map<std::string, double>{{"web", 0.7}, {"code", 0.3}}));
  EXPECT_EQ(data.stages[1].from_step, 501);
  EXPECT_EQ(data.stages[1].weights, (std::map<std::string, double>{{"code", 2.0}}));
  EXPECT_EQ(parse_mixture("[data]\ntokens = \"x\"").data.token_files(), std::vector<std::string>{"x"});
}

TEST(DataMixture, ReadsBackAsItWasWritten) {
  const RunConfig config = parse_mixture(kMixture);
  EXPECT_EQ(parse_run_file(to_toml(config), "config.toml"), config);
  EXPECT_NE(to_toml(config).find("sources = [{ name = \"web\", tokens = \"w.h5\" }, "), std::string::npos);
  EXPECT_NE(to_toml(config).find("stages = [{ from_step = 1, weights = { \"code\" = 0.3, \"web\" = 0.7 } }, "),
            std::string::npos);
  EXPECT_NE(parse_mixture(kMixture, {"data.stages.2.from_step=502"}), config);
}

TEST(DataMixture, IsSetAndUnsetFromTheCommandLine) {
  EXPECT_EQ(parse_mixture(kMixture, {"data.sources.2.tokens=d.h5"}).data.sources[1].tokens, "d.h5");
  EXPECT_EQ(parse_mixture(kMixture, {"data.stages.1.weights.web=0.5"}).data.stages[0].weights.at("web"), 0.5);
  EXPECT_EQ(parse_mixture(kMixture, {"data.stages.2.from_step=9"}).data.stages[1].from_step, 9);
  EXPECT_EQ(parse_mixture(kMixture, {"unset data.sources", "unset data.stages", "data.tokens=x"}).data.token_files().front(),
            "x");
  EXPECT_EQ(parse_mixture("[data]\n", {"data.sources=[{name=\"a\", tokens=\"a.h5\"}]", "data.stages=[{weights={a=1}}]"})
                .data.stages[0]
                .from_step,
            1);
  EXPECT_ERROR(parse_mixture(kMixture, {"data.sources.3.tokens=d.h5"}), ExitCode::config, "--set data.sources.3",
               "has 2 sources");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.stages.0.from_step=1"}), ExitCode::config, "no stage 0");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.stages.x=1"}), ExitCode::config, "data.stages.NUMBER.KEY", "the first stage as 1");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.sources.1.token=d.h5"}), ExitCode::config, "did you mean tokens?");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.stages.1.weights.wev=1"}), ExitCode::config, "--set data.stages.1",
               "did you mean web?");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.stages.1.weights.web=-1"}), ExitCode::config, "--set",
               "data.stages.weights.web is out of range");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.sources=3"}), ExitCode::config, "array of tables, each with name and tokens",
               "the integer 3");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.stages=[3]"}), ExitCode::config,
               "array of tables, each with from_step and weights");
}

TEST(DataMixture, IsInsteadOfOneTokenFile) {
  EXPECT_ERROR(parse_mixture(kMixture, {"data.tokens=x.h5"}), ExitCode::config, "--set data.tokens", "one or the other",
               "--unset data.sources");
  EXPECT_ERROR(parse_mixture(kTwoSources), ExitCode::config, "run.toml:2:", "without weights", "{ web = 1.0");
  EXPECT_ERROR(parse_mixture("[data]\n[[data.stages]]\nweights = { a = 1 }\n"), ExitCode::config,
               "run.toml:2:", "no data.sources");
  EXPECT_ERROR(parse_mixture("[data]\n"), ExitCode::config, "data.tokens is not set");
  EXPECT_ERROR(parse_mixture(kMixture, {"data.kind=two_moons", "model.kind=mlp"}), ExitCode::config,
               "data.sources has no effect");
}

TEST(DataMixture, MistakesInSourcesAreRefusedWithFileAndLine) {
  const auto source = [](const std::string& lines) {
    return kTwoSources + "[[data.sources]]\n" + lines + "\n[[data.stages]]\nweights = { web = 1 }\n";
  };
  EXPECT_ERROR(parse_mixture(source("tokens = \"x\"")), ExitCode::config, "run.toml:8:", "needs a name");
  EXPECT_ERROR(parse_mixture(source("name = \"a b\"\ntokens = \"x\"")), ExitCode::config, "run.toml:8:", "it is \"a b\"");
  EXPECT_ERROR(parse_mixture(source("name = \"web\"\ntokens = \"x\"")), ExitCode::config, "run.toml:8:", "two sources", "'web'");
  EXPECT_ERROR(parse_mixture(source("name = \"books\"")), ExitCode::config, "run.toml:8:", "'books'", "no token file");
  EXPECT_ERROR(parse_mixture(source("name = 3")), ExitCode::config, "run.toml:9:", "data.sources.name must be a string");
  EXPECT_ERROR(parse_mixture(source("weight = 3")), ExitCode::config, "run.toml:9:", "unknown key weight",
               "known keys: name, tokens");
}

TEST(DataMixture, MistakesInStagesAreRefusedWithFileAndLine) {
  EXPECT_ERROR(parse_mixture(stage("from_step = 2\nweights = { web = 1 }")), ExitCode::config, "run.toml:8:", "begins at step 2");
  EXPECT_ERROR(parse_mixture(stage("from_step = 0\nweights = { web = 1 }")), ExitCode::config, "run.toml:9:", "from 1 to");
  EXPECT_ERROR(parse_mixture(stage("weights = { web = 1 }\n[[data.stages]]\nweights = { web = 1 }")), ExitCode::config,
               "run.toml:10:", "order", "1 comes after 1");
  EXPECT_ERROR(parse_mixture(stage("weights = { wev = 1 }")), ExitCode::config, "run.toml:8:", "'wev'", "did you mean web?");
  EXPECT_ERROR(parse_mixture(stage("weights = { poems = 1 }")), ExitCode::config, "'poems'", "the sources are web, code");
  EXPECT_ERROR(parse_mixture(stage("weights = { web = -0.5, code = 1 }")), ExitCode::config, "run.toml:9:", "out of range",
               "-0.5");
  EXPECT_ERROR(parse_mixture(stage("weights = { web = nan }")), ExitCode::config, "run.toml:9:", "out of range");
  EXPECT_ERROR(parse_mixture(stage("weights = { web = \"1\" }")), ExitCode::config, "run.toml:9:", "must be a number");
  EXPECT_ERROR(parse_mixture(stage("weights = { web = 0, code = 0 }")), ExitCode::config, "run.toml:8:", "above 0");
  EXPECT_ERROR(parse_mixture(stage("weights = {}")), ExitCode::config, "run.toml:8:", "above 0");
  EXPECT_ERROR(parse_mixture(stage("from_step = 1")), ExitCode::config, "run.toml:8:", "above 0");
  EXPECT_ERROR(parse_mixture(stage("weights = [0.5, 0.5]")), ExitCode::config, "run.toml:9:", "must be a table", "an array");
  EXPECT_ERROR(parse_mixture(stage("form_step = 1")), ExitCode::config, "run.toml:9:", "did you mean from_step?");
}

}  // namespace
}  // namespace cohort::test
