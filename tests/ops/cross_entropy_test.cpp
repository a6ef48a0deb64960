// Cross-entropy against its reference.
#include "ops/cross_entropy.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/compare.hpp"
#include "ops/finite_difference.hpp"
#include "ops/reference/cross_entropy.hpp"

namespace cohort::ops {
namespace {

struct Problem {
  // Logits of standard deviation `spread`; every third row is ignored if asked.
  Problem(Count rows_, Count vocabulary_, double spread, bool ignores) : rows(rows_), vocabulary(vocabulary_) {
    logits = random_values(rows * vocabulary, 1, spread);
    targets = random_indices(rows, vocabulary, 2);
    for (Count r = 0; ignores && r < rows; r += 3) targets[r] = kIgnoredTarget;
    expected = reference::cross_entropy(logits, targets, vocabulary, kScale);
  }

  double largest(Count r) const {
    return *std::max_element(logits.begin() + r * vocabulary, logits.begin() + (r + 1) * vocabulary);
  }

  // -log softmax = (largest - logit) + log(sum of V exponentials): the first is exact to its size, the sum is at least 1.
  double loss_tolerance() const {
    double tolerance = 1e-12;
    for (Count r = 0; r < rows; ++r) {
      if (targets[r] != kIgnoredTarget)
        tolerance += sum_error(vocabulary) * (1.0 + std::abs(largest(r) - logits[r * vocabulary + targets[r]]));
    }
    return tolerance;
  }
  // p = exp(logit - largest) / sum. The difference is rounded, which moves p by kEps |difference| of itself. At the target, 1 is
  // taken off. 1e-36: numbers near the smallest fp32 may come out as 0 or as that smallest number.
  Array gradient_tolerance() const {
    Array tolerance;
    for (Count i = 0; i < rows * vocabulary; ++i) {
      const Count r = i / vocabulary;
      const double onehot = i % vocabulary == targets[r] ? 1.0 : 0.0;
      const double p = std::abs(expected.dlogits[i]) / kScale + onehot;
      tolerance.push_back(kScale *
                          (sum_error(vocabulary) * p * (1.0 + std::abs(logits[i] - largest(r))) + kEps * onehot + 1e-36));
    }
    return tolerance;
  }

  static constexpr double kScale = 0.03125;
  Count rows, vocabulary;
  Array logits;
  std::vector<std::int32_t> targets;
  reference::CrossEntropy expected;
};

double forward(const Tensor& logits, Count classes, const std::vector<std::int32_t>& targets) {
  const Tensor loss = number_tensor(0.0);
  cross_entropy_forward(test_exec(), loss, logits, classes, Indices(targets).span());
  return number_of(loss);
}

double forward_backward(const Tensor& logits, Count classes, const std::vector<std::int32_t>& targets, double scale) {
  const Tensor loss = number_tensor(0.0);
  cross_entropy_forward_backward(test_exec(), loss, logits, classes, Indices(targets).span(), static_cast<float>(scale));
  return number_of(loss);
}

double loss_of(const Problem& p, Input logits) {
  return forward(tensor_of(logits, {p.rows, p.vocabulary}), p.vocabulary, p.targets);
}

// The loss goes to `loss`.
Tensor gradient_of(const Problem& p, double* loss = nullptr) {
  const Tensor logits = tensor_of(p.logits, {p.rows, p.vocabulary});
  const double value = forward_backward(logits, p.vocabulary, p.targets, Problem::kScale);
  if (loss != nullptr) *loss = value;
  return logits;
}

void check(const Problem& p) {
  SCOPED_TRACE(fmt::format("[{}, {}], first logit {}, first target {}", p.rows, p.vocabulary, p.logits[0], p.targets[0]));
  EXPECT_NEAR(loss_of(p, p.logits), p.expected.loss, p.loss_tolerance());
  double loss = 0.0;
  EXPECT_TRUE(close(gradient_of(p, &loss), p.expected.dlogits, p.gradient_tolerance()));
  EXPECT_NEAR(loss, p.expected.loss, p.loss_tolerance());
}

TEST(CrossEntropy, MatchesTheReference) {
  for (const Count vocabulary : {1, 2, 3, 17, 65, 130, 1000}) {
    for (const Count rows : {1, 2, 7, 33}) {
      check(Problem(rows, vocabulary, 2.0, false));
      check(Problem(rows, vocabulary, 2.0, true));
    }
  }
}

TEST(CrossEntropy, LargeLogits) {
  for (const double size : {80.0, 1e4}) {
    for (const Count vocabulary : {2, 65, 1000}) {
      check(Problem(7, vocabulary, size, false));
      Problem p(4, vocabulary, 1.0, false);
      for (std::size_t i = 0; i < p.logits.size(); ++i) p.logits[i] = i % 2 == 0 ? size : -size;  // ties at the top
      p.expected = reference::cross_entropy(p.logits, p.targets, vocabulary, Problem::kScale);
      check(p);
      p.logits.assign(p.logits.size(), -size);  // all alike: p = 1 / V
      p.expected = reference::cross_entropy(p.logits, p.targets, vocabulary, Problem::kScale);
      check(p);
    }
  }
}

TEST(CrossEntropy, ForwardLeavesTheLogits) {
  const Problem p(7, 65, 2.0, true);
  const Tensor logits = tensor_of(p.logits, {7, 65});
  forward(logits, 65, p.targets);
  EXPECT_TRUE(same_bits(logits, tensor_of(p.logits, {7, 65})));
}

TEST(CrossEntropy, AllRowsIgnored) {
  Problem p(5, 17, 2.0, false);
  p.targets.assign(5, kIgnoredTarget);
  double loss = 1.0;
  EXPECT_TRUE(close(gradient_of(p, &loss), Array(5 * 17, 0.0), 0.0));
  EXPECT_EQ(loss, 0.0);
  EXPECT_EQ(loss_of(p, p.logits), 0.0);
}

TEST(CrossEntropy, IgnoredRowsMayHoldAnything) {
  Problem p(3, 17, 2.0, false);
  p.targets[1] = kIgnoredTarget;
  for (Count v = 0; v < 17; ++v) p.logits[17 + v] = kGarbage;
  const Tensor logits = tensor_of(p.logits, {3, 17});
  const double loss = forward_backward(logits, 17, p.targets, 1.0);
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_TRUE(close(logits.slice(1, 2), Array(17, 0.0), 0.0));
}

TEST(CrossEntropy, NotANumberShows) {
  for (const Count where : {0, 3, 16}) {  // a maximum taken by comparisons could drop a NaN that is not the first
    Problem p(1, 17, 2.0, false);
    p.logits[where] = kGarbage;
    EXPECT_TRUE(std::isnan(loss_of(p, p.logits))) << where;
  }
}

TEST(CrossEntropy, NoRows) { EXPECT_EQ(forward(filled({0, 5}, 0.0f), 5, {}), 0.0); }

TEST(CrossEntropy, TheLossIsAddedToWhatIsThere) {
  const Problem p(7, 65, 2.0, true);
  const double once = loss_of(p, p.logits);
  const Tensor loss = number_tensor(100.0), logits = tensor_of(p.logits, {7, 65});
  cross_entropy_forward(test_exec(), loss, logits, 65, Indices(p.targets).span());
  EXPECT_DOUBLE_EQ(number_of(loss), 100.0 + once);
  cross_entropy_forward_backward(test_exec(), loss, logits, 65, Indices(p.targets).span(), 1.0f);
  EXPECT_DOUBLE_EQ(number_of(loss), 100.0 + 2.0 * once);
}

// Rows of logits that are longer than the vocabulary: what lies behind it, whatever it is, has no part in the loss and gets no
// gradient.
TEST(CrossEntropy, PaddingDoesNotCount) {
  for (const float padding : {kGarbage, 1e30f, 0.0f}) {
    for (const Count width : {66, 72, 128}) {
      SCOPED_TRACE(fmt::format("padding {} up to {}", padding, width));
      const Problem p(7, 65, 2.0, true);
      Array padded, expected;
      for (Count r = 0; r < 7; ++r) {
        for (Count v = 0; v < width; ++v) {
          padded.push_back(v < 65 ? p.logits[r * 65 + v] : padding);
          expected.push_back(v < 65 ? p.expected.dlogits[r * 65 + v] : 0.0);
        }
      }
      const Array allowed = p.gradient_tolerance();
      Array tolerance;
      for (Count i = 0; i < 7 * width; ++i) tolerance.push_back(i % width < 65 ? allowed[i / width * 65 + i % width] : 0.0);
      const Tensor logits = tensor_of(padded, {7, width});
      EXPECT_NEAR(forward(logits, 65, p.targets), p.expected.loss, p.loss_tolerance());
      EXPECT_TRUE(same_bits(logits, tensor_of(padded, {7, width}))) << "forward alone leaves the padding, too";
      EXPECT_NEAR(forward_backward(logits, 65, p.targets, Problem::kScale), p.expected.loss, p.loss_tolerance());
      EXPECT_TRUE(close(logits, expected, tolerance));
    }
  }
}

TEST(CrossEntropy, TargetOutsideTheVocabularyIsNamed) {
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "the host does not see targets that lie on a GPU";
  for (const std::int32_t bad : {17, -2}) {
    Problem p(3, 17, 2.0, false);
    p.targets[2] = bad;
    try {
      gradient_of(p);
      FAIL() << "target " << bad << " of a vocabulary of 17 was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos) << error.what();
    }
  }
}

TEST(CrossEntropy, GradientIsTheSlopeOfTheOp) {
  const Problem p(5, 65, 2.0, true);
  const auto loss = [&](Input logits) { return Problem::kScale * loss_of(p, logits); };
  EXPECT_TRUE(moves_along(values_of(gradient_of(p)), p.logits, loss));
}

TEST(CrossEntropy, SameBitsEachTime) {
  const Problem p(33, 1000, 2.0, true);
  EXPECT_EQ(loss_of(p, p.logits), loss_of(p, p.logits));
  EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{gradient_of(p)}; }));
}

TEST(CrossEntropy, TheComparisonRejectsWrongLosses) {
  const Problem p(9, 65, 2.0, true);
  const Tensor gradient = gradient_of(p);
  EXPECT_GT(std::abs(loss_of(p, p.logits) / 6.0 - p.expected.loss), p.loss_tolerance());  // planted: the mean, not the sum
  Array wrong = p.expected.dlogits;
  for (double& value : wrong) value /= Problem::kScale;  // planted: scale forgotten
  EXPECT_FALSE(close(gradient, wrong, p.gradient_tolerance()));
  wrong = p.expected.dlogits;
  wrong[65 + p.targets[1]] += Problem::kScale;  // planted: one target without its onehot
  EXPECT_FALSE(close(gradient, wrong, p.gradient_tolerance()));
  auto targets = p.targets;
  targets[0] = 3;  // planted: an ignored row counted
  EXPECT_FALSE(close(gradient, reference::cross_entropy(p.logits, targets, 65, Problem::kScale).dlogits, p.gradient_tolerance()));
}

}  // namespace
}  // namespace cohort::ops
