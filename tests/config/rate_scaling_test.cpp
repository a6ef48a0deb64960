// The learning rate of other batches: the rules, what is refused, and where people see it.
#include "config/rate_scaling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>

#include "config/describe.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

RunConfig run(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"optimizer.learning_rate=0.001", "train.micro_batch=4", "train.global_batch=512"});
  RunConfig config = parse_run_file("[data]\ntokens = \"x.tokens\"\n", "run.toml", overrides);
  validate(config, 4);
  return config;
}

TEST(RateScaling, FollowsItsRules) {
  EXPECT_DOUBLE_EQ(peak_learning_rate(run({})), 0.001);
  EXPECT_EQ(scaled_rate_in_words(run({})), "");
  EXPECT_DOUBLE_EQ(peak_learning_rate(run({"optimizer.rate_scaling=linear", "optimizer.rate_batch=128"})), 0.004);
  EXPECT_DOUBLE_EQ(peak_learning_rate(run({"optimizer.rate_scaling=sqrt", "optimizer.rate_batch=128"})), 0.002);
  EXPECT_DOUBLE_EQ(peak_learning_rate(run({"optimizer.rate_scaling=sqrt", "optimizer.rate_batch=1024"})), 0.001 * std::sqrt(0.5));
}

// The batch counts over all ranks, however it is cut.
TEST(RateScaling, DoesNotDependOnTheLayout) {
  const RunConfig one =
      run({"optimizer.rate_scaling=linear", "optimizer.rate_batch=128", "train.global_batch=0", "train.accumulation=32"});
  EXPECT_EQ(one.train.global_batch, 512);
  EXPECT_DOUBLE_EQ(peak_learning_rate(one), 0.004);
}

TEST(RateScaling, StandsInTheResolvedRunFile) {
  const RunConfig config = run({"optimizer.rate_scaling=linear", "optimizer.rate_batch=128"});
  const std::string text = to_toml(config);
  const std::string words = std::regex_replace(text, std::regex("\\s*\n\\s*# "), " ");  // a comment may go on in the next line
  EXPECT_NE(words.find("scaled: 0.004 = 0.001 x 4 (linear: train.global_batch 512 / optimizer.rate_batch 128)"),
            std::string::npos)
      << text;
  RunConfig again = parse_run_file(text, "run.toml");
  validate(again, 4);
  EXPECT_DOUBLE_EQ(peak_learning_rate(again), 0.004) << "scaled once";
  EXPECT_EQ(to_toml(run({})).find("scaled:"), std::string::npos);
}

TEST(RateScaling, NeedsTheBatchOfTheRate) {
  expect_error([] { run({"optimizer.rate_scaling=linear"}); }, ExitCode::config,
               {"optimizer.rate_scaling", "optimizer.rate_batch"});
  expect_error([] { run({"optimizer.rate_batch=128"}); }, ExitCode::config,
               {"optimizer.rate_batch has no effect", "linear or sqrt"});
  expect_error([] { run({"optimizer.rate_scaling=cubic"}); }, ExitCode::config, {"rate_scaling", "cubic", "sqrt"});
  expect_error([] { run({"optimizer.rate_scaling=sqrt", "optimizer.rate_batch=-1"}); }, ExitCode::config, {"rate_batch"});
  expect_error([] { run({"optimizer.groups=[{match=[\"*.bias\"], rate_scaling=\"linear\"}]"}); }, ExitCode::config,
               {"rate_scaling"});
}

}  // namespace
}  // namespace cohort::test
