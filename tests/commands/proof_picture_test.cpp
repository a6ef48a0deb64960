// The picture of `cohort prove --svg`. That the program writes it, and that it is XML, tests/commands/prove_test.py checks.
#include "commands/prove/proof_picture.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace cohort::test {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++times;
  return times;
}

ProvedLayout layout(const std::string& name, double losses, double weights) {
  ProvedLayout proved;
  proved.name = name;
  proved.result.losses = losses;
  proved.result.norms = 2e-7;
  proved.result.gradients = 3e-6;
  proved.result.weights = weights;
  return proved;
}

const Tolerance kTolerance{1e-5, "sums in another order"};

TEST(ProofPicture, ARowForEachLayoutAndALineForWhatIsAllowed) {
  const std::string svg = draw_proof({layout("dp 2, zero3", 1e-7, 0.0), layout("tp 2 <&>", 0.0, 1e-7)}, kTolerance, "a & b");
  EXPECT_EQ(count_of(svg, "class=\"bar\""), 8U);
  EXPECT_EQ(count_of(svg, "class=\"allowed\""), 4U);
  EXPECT_EQ(count_of(svg, "#c02020"), 4U) << "the lines alone are red: " << svg;
  EXPECT_NE(svg.find("tp 2 &lt;&amp;&gt;"), std::string::npos);
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_NE(svg.find("<title>dp 2, zero3, loss: 1.0e-07</title>"), std::string::npos);
}

TEST(ProofPicture, WhatIsBeyondTheToleranceIsRed) {
  const std::string equal = draw_proof({layout("dp 2", 1e-5, 1e-6)}, kTolerance, "");
  EXPECT_EQ(count_of(equal, "#c02020"), 4U) << "just allowed";
  const std::string loss = draw_proof({layout("dp 2", 1.1e-5, 1e-6)}, kTolerance, "");
  EXPECT_EQ(count_of(loss, "#c02020"), 5U);
  const std::string weights = draw_proof({layout("dp 2", 1e-5, 1.1e-6)}, kTolerance, "");
  EXPECT_EQ(count_of(weights, "#c02020"), 5U) << "weights have a tolerance of their own";
}

TEST(ProofPicture, WhatIsNotFiniteFillsTheRow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = draw_proof({layout("dp 2", nan, std::numeric_limits<double>::infinity())}, kTolerance, "");
  EXPECT_EQ(count_of(svg, "#c02020"), 6U);
  EXPECT_EQ(count_of(svg, "width=\"140.0\""), 2U) << svg;
}

}  // namespace
}  // namespace cohort::test
