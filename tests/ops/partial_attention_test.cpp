// Attention in blocks: one block against its reference, all blocks together against whole attention.
#include <fmt/ranges.h>

#include "ops/finite_difference.hpp"
#include "ops/partial_attention_problem.hpp"

namespace cohort::ops {
namespace {

// What merging adds to the errors of whole attention: each merge rounds lse, by kEps |lse|, and with it the weights, and does
// some four operations on out. That is less than the error of the weights of one block, so each further block adds at most one
// more.
double blocks_factor(const CutProblem& p) { return 1.0 + static_cast<double>(p.runs.size()); }

Array scaled(Array values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

::testing::AssertionResult is_whole_attention(const CutProblem& p, const Tensor& out) {
  return close(p.to_tokens(values_of(out), p.queries_width()), p.whole.forward.out,
               scaled(p.whole.out_tolerance(), blocks_factor(p)));
}

void check(const AttentionShape& shape, const std::vector<Count>& lengths, double dropout = 0.0, double sharpness = 1.0,
           const std::vector<std::int32_t>& first_keys = {}) {
  SCOPED_TRACE(
      fmt::format("{} in runs of {}, dropout {}, sharpness {}", describe(shape), fmt::join(lengths, ", "), dropout, sharpness));
  const CutProblem p(shape, lengths, dropout, sharpness, DType::f32, first_keys);
  const BlockResult forward = merged_forward(p, p.qkv);
  EXPECT_TRUE(is_whole_attention(p, forward.out));
  EXPECT_TRUE(
      close(p.to_tokens(values_of(forward.lse), 1), p.whole.forward.lse, Array{p.whole.lse_tolerance() * blocks_factor(p)}));
  const BlockGradients backward = added_backward(p);
  const Array expected = p.whole.expected_gradient(), tolerance = scaled(p.whole.gradient_tolerance(), blocks_factor(p));
  EXPECT_TRUE(close(p.to_tokens(values_of(backward.dq), p.queries_width()), p.columns(expected, 0, p.queries_width()),
                    p.columns(tolerance, 0, p.queries_width())));
  EXPECT_TRUE(close(p.to_tokens(values_of(backward.dkv), p.kv_width()), p.columns(expected, p.queries_width(), p.kv_width()),
                    p.columns(tolerance, p.queries_width(), p.kv_width())));
}

TEST(PartialAttention, BlocksMakeUpWholeAttention) {
  check({2, 12, 4, 2, 16}, {3, 3, 3, 3});
  check({1, 33, 4, 1, 16}, {33});
  check({2, 33, 4, 4, 16}, {1, 20, 5, 7});
  check({1, 200, 2, 1, 32}, {70, 130});  // several tiles of queries
  check({1, 129, 6, 2, 8}, {64, 1, 64});
  check({3, 17, 3, 3, 4}, {9, 8});
}

TEST(PartialAttention, AnyHeadSize) {
  for (const Count head_size : {2, 4, 32, 64, 80, 128}) check({1, 21, 2, 1, head_size}, {6, 10, 5});
}

TEST(PartialAttention, DropsWhatTheUndividedSequenceDrops) {
  check({2, 33, 4, 2, 16}, {8, 8, 8, 9}, 0.2);
  check({3, 100, 2, 2, 16}, {70, 30}, 0.5);
}

// Documents that begin and end within runs, at their ends, and in other runs.
TEST(PartialAttention, SeparateDocuments) {
  for (const Count mean : {1, 3, 20, 100}) {
    SCOPED_TRACE(fmt::format("documents of {} tokens on average", mean));
    check({2, 12, 4, 2, 16}, {3, 3, 3, 3}, 0.0, 1.0, random_first_keys(2, 12, mean, 1));
    check({2, 200, 2, 1, 32}, {70, 130}, 0.0, 1.0, random_first_keys(2, 200, mean, 2));
    check({3, 129, 6, 2, 8}, {64, 1, 64}, 0.2, 1.0, random_first_keys(3, 129, mean, 3));
  }
  check({1, 6, 2, 1, 16}, {3, 3}, 0.0, 1.0, {0, 0, 0, 3, 3, 3});
}

TEST(PartialAttention, SharpWeights) {
  for (const double sharpness : {8.0, 32.0}) check({1, 33, 2, 1, 16}, {11, 11, 11}, 0.0, sharpness);
}

TEST(PartialAttention, OneBlockIsThatOfTheReference) {
  for (const reference::Block& block : kBlocks) {
    SCOPED_TRACE(describe(block));
    const OneHead p(block, 200);
    const reference::BlockForward expected = reference::block_forward(p.q, p.k, p.v, block);
    const BlockResult result = run_forward(p);
    // Weighted averages of at most 80 values of about 4 at most, from scores of about as much: 100 roundings of 4.
    EXPECT_TRUE(close(result.out, expected.out, 400 * kEps));
    for (Count i = 0; i < block.queries; ++i) {
      if (std::isinf(expected.lse[i]))
        EXPECT_EQ(values_of(result.lse)[i], expected.lse[i]);
      else
        EXPECT_NEAR(values_of(result.lse)[i], expected.lse[i], 100 * kEps);
    }
  }
}

TEST(PartialAttention, BackwardAddsWhatTheBlockContributes) {
  for (const reference::Block& block : kBlocks) {
    SCOPED_TRACE(describe(block));
    const OneHead p(block, 200);
    const OneHeadBackward backward(p);
    const Array before_q = random_values(block.queries * 8, 6), before_kv = random_values(block.keys * 16, 7);
    const BlockGradients gradients{p.query_tensor(before_q), tensor_of(before_kv, p.kv_shape())};
    backward.run(gradients);
    const reference::BlockBackward expected = backward.expected();
    // Sums of at most 80 products of three numbers, the largest about 30, each off by some ten roundings with random signs.
    constexpr double kTolerance = 2000 * kEps;
    EXPECT_TRUE(close(gradients.dq, sum(before_q, expected.dq), kTolerance));
    EXPECT_TRUE(close(gradients.dkv, sum(before_kv, p.side_by_side(expected.dk, expected.dv)), kTolerance));
  }
}

TEST(PartialAttention, OtherRowsStayAsTheyAre) {
  const CutProblem p({2, 20, 2, 1, 8}, {7, 5, 8});
  const BlockResult result{filled(p.out_shape(), 7.0f), filled(p.lse_shape(), 7.0f)};
  const PartialAttention block = p.block(1, 0);
  partial_attention_forward(test_exec(), block, result.out, result.lse, p.q(p.qkv), p.kv(p.qkv), scratch_of(block));
  const Array lse = values_of(result.lse);
  for (Count i = 0; i < static_cast<Count>(lse.size()); ++i) {
    const bool own = i % 20 >= block.queries.row && i % 20 < block.queries.row + block.queries.count;
    EXPECT_EQ(lse[i] == 7.0, !own) << i;
  }
  const BlockResult part = garbage_result(p);
  partial_attention_forward(test_exec(), block, part.out, part.lse, p.q(p.qkv), p.kv(p.qkv), scratch_of(block));
  attention_merge(test_exec(), block, result.out, result.lse, part.out, part.lse);
  for (const double value : values_of(result.out)) EXPECT_TRUE(std::isfinite(value));  // the part's other rows are NaN
}

TEST(PartialAttention, VisiblePairs) {
  const TokenRun first{0, 0, 4}, third{4, 8, 4};
  EXPECT_EQ(visible_pairs(first, first), 4 * 5 / 2);
  EXPECT_EQ(visible_pairs(third, first), 16);
  EXPECT_EQ(visible_pairs(first, third), 0);
  EXPECT_EQ(visible_pairs({0, 10, 4}, third), 3 + 4 + 4 + 4);
}

TEST(PartialAttention, SameBitsEachTime) {
  const CutProblem p({2, 100, 4, 2, 16}, {30, 70}, 0.2);
  EXPECT_TRUE(repeats([&] {
    const BlockResult forward = merged_forward(p, p.qkv);
    const BlockGradients backward = added_backward(p);
    return std::vector<Tensor>{forward.out, forward.lse, backward.dq, backward.dkv};
  }));
}

TEST(PartialAttention, GradientIsTheSlopeOfTheOp) {
  for (const double dropout : {0.0, 0.2}) {
    const CutProblem p({1, 33, 4, 2, 16}, {10, 12, 11}, dropout);
    const auto loss = [&](Input qkv) { return dot(p.dout, values_of(merged_forward(p, qkv).out)); };
    const BlockGradients backward = added_backward(p);
    const Array dq = values_of(backward.dq), dkv = values_of(backward.dkv);
    Array gradient;
    for (Count r = 0; r < 33; ++r) {
      gradient.insert(gradient.end(), dq.begin() + r * p.queries_width(), dq.begin() + (r + 1) * p.queries_width());
      gradient.insert(gradient.end(), dkv.begin() + r * p.kv_width(), dkv.begin() + (r + 1) * p.kv_width());
    }
    EXPECT_TRUE(moves_along(gradient, p.qkv, loss));
    EXPECT_FALSE(moves_along(scaled(gradient, 1.1), p.qkv, loss));
  }
}

// The comparison that accepts the op must reject people's usual mistakes.
TEST(PartialAttention, TheComparisonRejectsWrongBlocks) {
  const CutProblem p({2, 32, 4, 2, 16}, {8, 8, 8, 8}, 0.2);
  const Tensor q = p.q(p.qkv), kv = p.kv(p.qkv);
  // Whole attention from blocks that `change` has altered, merged by `merge`.
  const auto with = [&](const auto& change, const auto& merge) {
    const BlockResult total{filled(p.out_shape(), 0.0f), filled(p.lse_shape(), -std::numeric_limits<float>::infinity())};
    const BlockResult part = garbage_result(p);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        const PartialAttention block = change(p.block(i, j));
        partial_attention_forward(test_exec(), block, part.out, part.lse, q, kv, scratch_of(block), p.whole.key);
        merge(block, total, part);
      }
    }
    return total.out;
  };
  const auto honest = [](PartialAttention block) { return block; };
  const auto merge = [](const PartialAttention& block, const BlockResult& total, const BlockResult& part) {
    attention_merge(test_exec(), block, total.out, total.lse, part.out, part.lse);
  };
  EXPECT_TRUE(is_whole_attention(p, with(honest, merge)));
  const auto without_rescaling = [&](const PartialAttention& block, const BlockResult& total, const BlockResult& part) {
    const Tensor sums = total.out.to_host(), summands = part.out.to_host();
    for (Count row = 0; row < 2 * 32; ++row) {
      const bool own = row % 32 >= block.queries.row && row % 32 < block.queries.row + block.queries.count;
      for (Count i = row * 64; own && i < (row + 1) * 64; ++i) sums.f32()[i] += summands.f32()[i];
    }
    total.out.copy_from(sums);
  };
  EXPECT_FALSE(is_whole_attention(p, with(honest, without_rescaling)));
  const auto off_by_a_chunk = [](PartialAttention block) {
    block.keys.position = std::min<Count>(block.keys.position + 8, 24);
    return block;
  };
  EXPECT_FALSE(is_whole_attention(p, with(off_by_a_chunk, merge)));
  const auto local_positions = [](PartialAttention block) {
    block.queries.position = block.queries.row;
    block.keys.position = block.keys.row;
    return block;
  };
  EXPECT_FALSE(is_whole_attention(p, with(local_positions, merge)));
}

}  // namespace
}  // namespace cohort::ops
