#include "train/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.hpp"

namespace cohort::test {
namespace {

const std::vector<float> kHalves{std::log(0.2f), std::log(0.5f), std::log(0.3f)};  // probabilities 0.2, 0.5, 0.3

TEST(DrawToken, TakesTheLikeliestAtTemperatureZero) {
  for (const double uniform : {0.0, 0.5, 0.999}) EXPECT_EQ(draw_token(kHalves, {.temperature = 0.0, .top_k = 0}, uniform), 1);
  const std::vector<float> equal{1.0f, 3.0f, 3.0f};
  EXPECT_EQ(draw_token(equal, {.temperature = 0.0, .top_k = 0}, 0.9), 1) << "of equals the one with the lowest id";
}

// From the likeliest on: 0 to 0.5 is token 1, to 0.8 token 2, to 1 token 0.
TEST(DrawToken, DrawsByProbability) {
  const std::vector<std::pair<double, std::int32_t>> draws{{0.0, 1}, {0.49, 1}, {0.51, 2}, {0.79, 2}, {0.81, 0}, {1 - 1e-16, 0}};
  for (const auto& [uniform, token] : draws)
    EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_k = 0}, uniform), token) << uniform;
}

TEST(DrawToken, TheTemperatureDividesTheLogits) {
  // Temperature 1/2 squares the probabilities: 0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38.
  EXPECT_EQ(draw_token(kHalves, {.temperature = 0.5, .top_k = 0}, 0.65), 1);
  EXPECT_EQ(draw_token(kHalves, {.temperature = 0.5, .top_k = 0}, 0.67), 2);
  EXPECT_EQ(draw_token(kHalves, {.temperature = 0.5, .top_k = 0}, 0.90), 0);
  EXPECT_EQ(draw_token(kHalves, {.temperature = 1000.0, .top_k = 0}, 0.34), 2) << "all alike";
}

TEST(DrawToken, TopKLeavesTheKLikeliest) {
  for (const double uniform : {0.0, 0.5, 1 - 1e-16}) EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_k = 1}, uniform), 1);
  EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_k = 2}, 0.62), 1) << "0.5 / 0.8";
  EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_k = 2}, 0.63), 2);
  EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_k = 2}, 1 - 1e-16), 2);
  for (const Count all : {0, 3, 99}) EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_k = all}, 0.9), 0);
}

// The likeliest that together have the probability: at least one, and after top_k.
TEST(DrawToken, TopPLeavesTheNucleus) {
  const auto last = [](const Sampling& sampling) { return draw_token(kHalves, sampling, 1 - 1e-16); };
  for (const double top_p : {1e-9, 0.1, 0.49}) EXPECT_EQ(last({.temperature = 1.0, .top_p = top_p}), 1) << top_p;
  for (const double top_p : {0.51, 0.79}) EXPECT_EQ(last({.temperature = 1.0, .top_p = top_p}), 2) << top_p;
  for (const double top_p : {0.81, 0.999, 1.0}) EXPECT_EQ(last({.temperature = 1.0, .top_p = top_p}), 0) << top_p;
  EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_p = 0.6}, 0.62), 1) << "0.5 / 0.8";
  EXPECT_EQ(draw_token(kHalves, {.temperature = 1.0, .top_p = 0.6}, 0.63), 2);
  EXPECT_EQ(last({.temperature = 1.0, .top_k = 2, .top_p = 0.63}), 2) << "of the two that top_k left";
  EXPECT_EQ(last({.temperature = 1.0, .top_k = 2, .top_p = 0.62}), 1);
  EXPECT_EQ(last({.temperature = 0.1, .top_p = 0.9}), 1) << "the temperature comes first";
}

// Of a large vocabulary, against sorting all of it.
TEST(DrawToken, ManyTokens) {
  const CounterRandom random(3, RandomPurpose::test);
  std::vector<float> logits(5000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = std::round(4.0f * random.normal(i)) / 4.0f;  // many equals
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]; });
  std::vector<double> sums{0.0};
  for (const std::int32_t token : order)
    sums.push_back(sums.back() + std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)]) / 5.0));
  for (const std::size_t place : {0u, 1u, 255u, 256u, 257u, 1023u, 1024u, 3000u, 4999u}) {
    const double inside = (sums[place] + 0.5 * (sums[place + 1] - sums[place])) / sums.back();
    EXPECT_EQ(draw_token(logits, {.temperature = 5.0}, inside), order[place]) << place;
  }
}

TEST(DrawToken, WhatHasNoProbabilityIsNeverDrawn) {
  const float never = -std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0, 1000.0})
    EXPECT_EQ(draw_token(std::vector{never, 0.0f, never}, {.temperature = temperature}, 1 - 1e-16), 1);
  EXPECT_TRUE(can_be_drawn_from(std::vector{never, 0.0f}));
  EXPECT_FALSE(can_be_drawn_from(std::vector{never, never}));
  EXPECT_FALSE(can_be_drawn_from(std::vector{0.0f, -never}));
  EXPECT_FALSE(can_be_drawn_from(std::vector{0.0f, std::nanf("")}));
}

TEST(DrawToken, LargeLogitsDoNotOverflow) {
  const std::vector<float> large{1e4f, 1e4f, -1e4f};
  EXPECT_EQ(draw_token(large, {.temperature = 1.0, .top_k = 0}, 0.4), 0);
  EXPECT_EQ(draw_token(large, {.temperature = 1.0, .top_k = 0}, 0.6), 1);
}

}  // namespace
}  // namespace cohort::test
