#include "report/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort::test {
namespace {

RunRecord run_of(const std::string& name, const std::vector<double>& losses, const std::vector<double>& validations = {}) {
  RunRecord run;
  run.name = name;
  for (std::size_t i = 0; i < losses.size(); ++i) run.figures["loss"].add(static_cast<Count>(i + 1), losses[i]);
  for (std::size_t i = 0; i < validations.size(); ++i)
    run.figures["validation_loss"].add(static_cast<Count>(10 * (i + 1)), validations[i]);
  return run;
}

TEST(Comparison, FindsWhereTwoRunsPart) {
  const double last_bit = std::nextafter(3.0, 4.0);
  const RunRecord a = run_of("a", {4, 3, 2, 1}), b = run_of("b", {4, last_bit, 2.001, 1.5, 7});
  const LossComparison losses = compare_losses(a, b);
  EXPECT_EQ(losses.common_steps, 4);
  EXPECT_EQ(losses.first_difference, 2) << "be it in the last bit";
  EXPECT_EQ(losses.beyond_a_percent, 4);
  EXPECT_EQ(losses.largest_at, 4);
  EXPECT_DOUBLE_EQ(losses.largest_difference, 0.5);
  EXPECT_EQ(verdict_of(a, b),
            "a and b first differ in step 2, and are the same before, bit for bit; their losses first differ by more than 1 % in "
            "step 4.");
}

TEST(Comparison, SaysThatRunsAreTheSame) {
  const RunRecord a = run_of("a", {4, NAN, 2}), b = run_of("b", {4, NAN, 2});
  EXPECT_EQ(verdict_of(a, b), "a and b have the same losses, bit for bit, in all 3 steps that both have.");
  EXPECT_EQ(verdict_of(a, run_of("c", {})), "a and c have no step in common.");
  EXPECT_EQ(compare_losses(a, run_of("d", {4, 3, 2})).beyond_a_percent, 2) << "a NaN on one side";
}

TEST(Comparison, TellsNothingOfStepsThatAreNotThere) {
  RunRecord a = run_of("a", {}), b = run_of("b", {});
  a.figures["loss"] = {{501, 502}, {3.0, 2.0}};
  b.figures["loss"] = {{501, 502}, {3.5, 2.0}};
  EXPECT_NE(verdict_of(a, b).find("a and b differ in step 501, the first that both have"), std::string::npos) << verdict_of(a, b);
}

TEST(Comparison, RunsOfOneNameAreCalledByTheirFolders) {
  std::vector<RunRecord> runs{run_of("demo", {1}), run_of("demo", {1}), run_of("other", {1})};
  runs[0].folder = "a/demo";
  runs[1].folder = "b/demo";
  tell_names_apart(runs);
  EXPECT_EQ(runs[0].name, "a/demo");
  EXPECT_EQ(runs[1].name, "b/demo");
  EXPECT_EQ(runs[2].name, "other");
}

TEST(Comparison, NamesTheBetterRun) {
  const RunRecord a = run_of("a", {4, 3}, {3.0, 2.5, 2.0}), b = run_of("b", {5, 4}, {3.5, 2.75});
  EXPECT_NE(verdict_of(a, b).find("a has the lower validation loss, 2.0000 against 2.7500 of b; it was there by step 20."),
            std::string::npos)
      << verdict_of(a, b);
}

TEST(Comparison, TheTableLeavesOutWhatNoRunHas) {
  const std::vector<RunRecord> runs{run_of("first", {4, 3}), run_of("second", {5, 4, 3})};
  const std::string table = comparison_table(runs);
  EXPECT_NE(table.find("first"), std::string::npos);
  EXPECT_EQ(table.find("MFU"), std::string::npos) << table;
  EXPECT_NE(table.find("steps"), std::string::npos);
}

}  // namespace
}  // namespace cohort::test
