// Embedding and cross-entropy of parts of a vocabulary: put together as ranks would, they are those of the whole.
#include "ops/vocabulary_part.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/compare.hpp"
#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/reference/cross_entropy.hpp"

namespace cohort::ops {
namespace {

// As nn/vocabulary.hpp cuts: the last part has what is left.
std::vector<VocabularyPart> parts_of(Count vocabulary, Count parts) {
  std::vector<VocabularyPart> all;
  const Count most = (vocabulary + parts - 1) / parts;
  for (Count begin = 0; begin < vocabulary; begin += most) all.push_back({begin, std::min(vocabulary, begin + most), vocabulary});
  return all;
}

constexpr Count kBatch = 3, kTokens = 7, kRows = kBatch * kTokens;

TEST(EmbeddingParts, SumToTheEmbedding) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Count width : {1, 17, 130}) {
      for (const Count parts : {1, 2, 3, 5}) {
        const Count vocabulary = 13;
        const std::vector<std::int32_t> ids = random_indices(kRows, vocabulary, 1);
        const Indices<std::int32_t> tokens(ids);
        const Tensor table = tensor_of_type(dtype, random_values(vocabulary * width, 2), {vocabulary, width});
        const Tensor positions = tensor_of_type(dtype, random_values(kTokens * width, 3), {kTokens, width});
        const Tensor whole = Tensor::zeros("test", {kRows, width}, dtype, test_device());
        embedding_forward(test_exec(), whole, tokens.span(), table, positions);
        Array together(static_cast<std::size_t>(kRows * width), 0.0);
        for (const VocabularyPart& part : parts_of(vocabulary, parts)) {
          const Tensor out = tensor_of_type(dtype, Array(together.size(), 77.0), {kRows, width});
          embedding_part_forward(test_exec(), out, tokens.span(), table.slice(part.begin, part.end),
                                 part.begin == 0 ? positions : Tensor{}, part);
          together = sum(together, values_of(out));
        }
        // In fp32, the order of two terms; else the last rounding, of what the parts sum in 16 bits.
        EXPECT_TRUE(close(together, values_of(whole), Array{dtype == DType::f32 ? 5.0 * kEps : 5.0 * 0x1p-8}))
            << parts << " parts of rows of " << width << " in " << name_of(dtype);
      }
    }
  }
}

TEST(EmbeddingParts, GradientsAreRowsOfTheWhole) {
  for (const Count width : {1, 17, 130}) {
    for (const Count parts : {1, 2, 3, 5}) {
      const Count vocabulary = 13;
      const std::vector<std::int32_t> ids = random_indices(kRows, vocabulary, 1);
      const Indices<std::int32_t> tokens(ids);
      const Array dout = random_values(kRows * width, 2), before = random_values(vocabulary * width, 3),
                  positions_before = random_values(kTokens * width, 4);
      const Tensor whole = tensor_of(before, {vocabulary, width}), positions = tensor_of(positions_before, {kTokens, width});
      embedding_backward(test_exec(), whole, positions, tokens.span(), tensor_of(dout, {kRows, width}));
      // Entries and the numbers that they sum are below 5.
      const double tolerance = 5.0 * static_cast<double>(kRows) * sum_error(kRows);
      for (const VocabularyPart& part : parts_of(vocabulary, parts)) {
        const Tensor dtable = copy_of(tensor_of(before, {vocabulary, width}).slice(part.begin, part.end));
        const Tensor dpositions = tensor_of(positions_before, {kTokens, width});
        const Tensor scratch = Tensor::zeros("test", {kRows}, DType::i32, test_device());
        embedding_part_backward(test_exec(), dtable, dpositions, tokens.span(), tensor_of(dout, {kRows, width}), scratch, part);
        EXPECT_TRUE(close(dtable, values_of(whole.slice(part.begin, part.end)), tolerance));
        EXPECT_TRUE(close(dpositions, values_of(positions), tolerance));
      }
    }
  }
}

struct LossProblem {
  LossProblem(Count rows_, Count vocabulary_, double spread) : rows(rows_), vocabulary(vocabulary_) {
    logits = random_values(rows * vocabulary, 1, spread);
    targets = random_indices(rows, vocabulary, 2);
    for (Count r = 0; r < rows; r += 3) targets[static_cast<std::size_t>(r)] = kIgnoredTarget;
    expected = reference::cross_entropy(logits, targets, vocabulary, kScale);
  }
  // Logits of a part, in rows with garbage for padding.
  Tensor of(const VocabularyPart& part, Count stride, DType dtype) const {
    Array values;
    for (Count r = 0; r < rows; ++r)
      for (Count v = 0; v < stride; ++v)
        values.push_back(v < part.rows() ? logits[static_cast<std::size_t>(r * vocabulary + part.begin + v)] : 1e4);
    return tensor_of_type(dtype, values, {rows, stride});
  }

  static constexpr double kScale = 0.03125;
  Count rows, vocabulary;
  Array logits;
  std::vector<std::int32_t> targets;
  reference::CrossEntropy expected;
};

// The parts with what ranks would exchange done here: {loss of each part, gradient of each part}.
struct Outcome {
  std::vector<double> losses;
  std::vector<Tensor> gradients;
};
Outcome run(const LossProblem& p, const std::vector<VocabularyPart>& parts, Count padding, DType dtype) {
  const Indices<std::int32_t> targets(p.targets);
  const Count stride = parts.front().rows() + padding;
  std::vector<Tensor> largest, sums;
  Outcome outcome;
  Array of_all(static_cast<std::size_t>(p.rows), -1e30), summed(static_cast<std::size_t>(2 * p.rows), 0.0);
  for (const VocabularyPart& part : parts) {
    outcome.gradients.push_back(p.of(part, stride, dtype));
    largest.push_back(filled({p.rows}, kGarbage));
    sums.push_back(filled({2, p.rows}, kGarbage));
    softmax_statistics(test_exec(), largest.back(), sums.back(), outcome.gradients.back(), targets.span(), part);
    const Array own = values_of(largest.back());
    for (std::size_t r = 0; r < own.size(); ++r) of_all[r] = std::max(of_all[r], own[r]);
  }
  const Tensor largest_of_all = tensor_of(of_all, {p.rows});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    rescale_sums(test_exec(), sums[i], largest[i], largest_of_all);
    summed = sum(summed, values_of(sums[i]));
  }
  const Tensor sums_of_all = tensor_of(summed, {2, p.rows});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor loss = number_tensor(0.0);
    cross_entropy_of_sums(test_exec(), loss, largest_of_all, sums_of_all, targets.span());
    softmax_gradient(test_exec(), outcome.gradients[i], largest_of_all, sums_of_all, targets.span(), parts[i],
                     static_cast<float>(LossProblem::kScale));
    outcome.losses.push_back(number_of(loss));
  }
  return outcome;
}

void check(const LossProblem& p, Count count, Count padding) {
  SCOPED_TRACE(fmt::format("[{}, {}] in {} parts, padding {}", p.rows, p.vocabulary, count, padding));
  const std::vector<VocabularyPart> parts = parts_of(p.vocabulary, count);
  const Outcome outcome = run(p, parts, padding, DType::f32);
  double largest = 1.0;
  for (const double logit : p.logits) largest = std::max(largest, std::abs(logit));
  // Each row's loss is a sum of three numbers as large as the logits; probabilities, at most 1, err by the logits' rounding.
  const double loss_tolerance = static_cast<double>(p.rows) * 2.0 * largest * sum_error(p.vocabulary);
  const double gradient_tolerance = LossProblem::kScale * 2.0 * largest * sum_error(p.vocabulary);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], p.expected.loss, loss_tolerance);
    const Array gradient = values_of(outcome.gradients[i]);
    Array expected;
    for (Count r = 0; r < p.rows; ++r)
      for (Count v = 0; v < parts.front().rows() + padding; ++v)
        expected.push_back(
            v < parts[i].rows() ? p.expected.dlogits[static_cast<std::size_t>(r * p.vocabulary + parts[i].begin + v)] : 0.0);
    EXPECT_TRUE(close(gradient, expected, Array{gradient_tolerance}));
  }
  EXPECT_TRUE(repeats([&] { return run(p, parts, padding, DType::f32).gradients; }));
}

TEST(CrossEntropyParts, MatchTheReference) {
  for (const Count vocabulary : {5, 13, 130, 1000}) {
    for (const Count rows : {1, 7, 33}) {
      for (const Count count : {1, 2, 3}) check(LossProblem(rows, vocabulary, 2.0), count, count - 1);
    }
  }
}

// One part's exponentials vanish beside another's, or all would overflow without the maximum of all.
TEST(CrossEntropyParts, LargeLogits) {
  for (const double size : {80.0, 1e4}) check(LossProblem(7, 65, size), 3, 2);
}

// A probability is rounded to 8 bits, of a logit that was.
TEST(CrossEntropyParts, In16Bits) {
  const LossProblem p(7, 65, 2.0);
  const std::vector<VocabularyPart> parts = parts_of(65, 3);
  const Outcome outcome = run(p, parts, 1, DType::bf16);
  EXPECT_NEAR(outcome.losses[0], p.expected.loss, 7.0 * 6.0 * 0x1p-8);
  for (Count r = 0; r < p.rows; ++r) {
    for (Count v = 0; v < parts[1].rows(); ++v) {
      const auto at = static_cast<std::size_t>(r * p.vocabulary + parts[1].begin + v);
      EXPECT_NEAR(values_of(outcome.gradients[1])[static_cast<std::size_t>(r * (parts[0].rows() + 1) + v)],
                  p.expected.dlogits[at], LossProblem::kScale * 8.0 * 0x1p-8);
    }
  }
}

TEST(VocabularyParts, IdsOutsideTheVocabularyAreNamed) {
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "the host does not see ids that lie on a GPU";
  const VocabularyPart part{4, 8, 10};
  const Tensor table = filled({4, 3}, 1.0f), out = filled({2, 3}, 0.0f);
  const std::vector<std::int32_t> outside_the_part{9, 0}, outside_all{0, 10};
  EXPECT_NO_THROW(embedding_part_forward(test_exec(), out, outside_the_part, table, {}, part));
  for (const float value : out.span<float>()) EXPECT_EQ(value, 0.0f);
  EXPECT_THROW(embedding_part_forward(test_exec(), out, outside_all, table, {}, part), Error);
  const Tensor logits = filled({2, 4}, 1.0f);
  EXPECT_THROW(softmax_statistics(test_exec(), filled({2}, 0.0f), filled({2, 2}, 0.0f), logits, outside_all, part), Error);
}

}  // namespace
}  // namespace cohort::ops
