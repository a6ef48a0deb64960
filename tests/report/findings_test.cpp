#include "report/findings.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort::test {
namespace {

// A loss that falls from 6 to about 2, with a little noise of period 7.
RunRecord falling(Count steps) {
  RunRecord run;
  run.folder = "runs/x";
  for (Count i = 1; i <= steps; ++i)
    run.figures["loss"].add(
        i, 2.0 + 4.0 * std::exp(-3.0 * static_cast<double>(i) / static_cast<double>(steps)) + 0.01 * static_cast<double>(i % 7));
  return run;
}

std::string texts_of(const RunRecord& run) {
  std::string all;
  for (const Finding& finding : findings_of(run)) all += finding.text + "\n";
  return all;
}

TEST(Findings, OfASoundRunAreNone) { EXPECT_EQ(texts_of(falling(1000)), ""); }

TEST(Findings, NameSpikesWithTheirSamples) {
  RunRecord run = falling(1000);
  run.figures["loss"].values[499] += 1.0;
  ASSERT_EQ(findings_of(run).size(), 1u) << texts_of(run);
  EXPECT_EQ(findings_of(run)[0].step, 500);
  EXPECT_NE(texts_of(run).find("cohort data samples runs/x --step 500"), std::string::npos);
}

TEST(Findings, OfAJumpShowOneSpike) {
  RunRecord run = falling(1000);
  for (std::size_t i = 500; i < 1000; ++i) run.figures["loss"].values[i] += 1.0;
  const std::string text = texts_of(run);
  EXPECT_EQ(text.find("Spike"), text.rfind("Spike")) << text;
}

TEST(Findings, OfManySlowRanksShowTheSlowest) {
  RunRecord run = falling(10);
  for (Count i = 1; i <= 4; ++i) {
    std::vector<double> times(100, 1.0);
    for (std::size_t rank = 0; rank < 40; ++rank) times[rank] = 1.5 + 0.01 * static_cast<double>(rank);
    run.ranks.add(i, times);
  }
  EXPECT_EQ(findings_of(run).size(), 5u) << texts_of(run);
  EXPECT_NE(texts_of(run).find("Rank 39 works"), std::string::npos) << texts_of(run);
  EXPECT_NE(texts_of(run).find("so do 40 ranks in all"), std::string::npos) << texts_of(run);
}

TEST(Findings, ALossThatRisesIsNoPlateau) {
  RunRecord run;
  for (Count i = 1; i <= 900; ++i) run.figures["loss"].add(i, 2.0 + 0.001 * static_cast<double>(i));
  EXPECT_NE(texts_of(run).find("The smoothed loss rises"), std::string::npos) << texts_of(run);
  EXPECT_EQ(texts_of(run).find("Plateau"), std::string::npos);
}

TEST(Findings, OfManySpikesShowTheHighest) {
  RunRecord run = falling(1000);
  for (std::size_t i = 100; i < 1000; i += 100) run.figures["loss"].values[i] += 1.0 + 0.001 * static_cast<double>(i);
  const std::string text = texts_of(run);
  EXPECT_NE(text.find("step 901 is"), std::string::npos) << text;
  EXPECT_NE(text.find("There are 4 more spikes, lower than these"), std::string::npos) << text;
}

TEST(Findings, NameLossesThatAreNotFinite) {
  RunRecord run = falling(100);
  run.figures["loss"].values[49] = run.figures["loss"].values[50] = NAN;
  EXPECT_NE(texts_of(run).find("not finite in 2 steps, first in step 50"), std::string::npos) << texts_of(run);
}

TEST(Findings, NameAPlateauUnlessItIsTheFloor) {
  RunRecord run;
  for (Count i = 1; i <= 900; ++i) run.figures["loss"].add(i, i < 300 ? 5.0 - 0.01 * static_cast<double>(i) : 2.0);
  EXPECT_NE(texts_of(run).find("Plateau: since step 601"), std::string::npos) << texts_of(run);
  run.entropy_floor = 1.95;
  EXPECT_EQ(texts_of(run), "");
}

TEST(Findings, NameAValidationLossThatRises) {
  RunRecord run = falling(100);
  run.figures["validation_loss"] = {{10, 20, 30, 40, 50}, {3.0, 2.0, 2.1, 2.2, 2.3}};
  EXPECT_NE(texts_of(run).find("lowest at step 20 (2.0000) and is 2.3000 now: with"), std::string::npos) << texts_of(run);
  run.figures["validation_loss"].values.back() = 1.9;
  EXPECT_EQ(texts_of(run), "");
}

TEST(Findings, NameOverflowsSlowRanksAndTimeBesideTraining) {
  RunRecord run = falling(100);
  run.figures["loss_scale"] = {{1, 2, 3, 4}, {1024, 512, 512, 256}};
  run.figures["skipped"] = {{1, 2, 4}, {1, 1, 1}};
  for (Count i = 1; i <= 6; ++i) run.ranks.add(i, {1.0, 1.0, i > 2 ? 2.0 : 1.0, NAN});
  for (Count i = 1; i <= 10; ++i) {
    run.figures["seconds.step"].add(i, 1.0);
    run.figures["seconds.validation"].add(i, 0.2);
  }
  const std::string text = texts_of(run);
  EXPECT_NE(text.find("3 steps were skipped, first step 1: fp16 overflowed"), std::string::npos) << text;
  EXPECT_NE(text.find("Rank 2 works longer than the others of its stage in 4 of 6 reports, up to 2.0 times"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("Rank 3"), std::string::npos) << text;
  EXPECT_NE(text.find("20 % of the time went into validations"), std::string::npos) << text;
}

}  // namespace
}  // namespace cohort::test
