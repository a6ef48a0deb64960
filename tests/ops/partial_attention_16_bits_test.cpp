// Attention in blocks of 16-bit activations, on the sizes at which the kernels for GPUs differ: tiles of 32, 64 or 128 columns,
// of 64, 128 or 192 rows, and blocks that are diagonal, full, or neither.
//
// Errors are ||x - r|| / ||r|| over all elements; those of dq, dk and dv relative to ||r|| of the three together. With u = 2^-8
// (bf16) or 2^-11 (fp16), the largest relative error of rounding once (its root mean square is 0.4 u): out, which is fp32, sees
// the rounding of the weights, whose errors are independent: 1.5 u allowed. A gradient sees in addition that of the weights'
// gradients, and of out in delta, which weighs most where a row has few keys: 2 u allowed. lse is never below fp32: sums of up to
// 600 terms, each off by some 2^-24.
#include "ops/partial_attention_problem.hpp"

#include <fmt/ranges.h>

namespace cohort::ops {
namespace {

constexpr DType kTypes[]{DType::bf16, DType::f16};
double unit_of(DType type) { return type == DType::bf16 ? 0x1.0p-8 : 0x1.0p-11; }
constexpr double kLseTolerance = 1e-5;

double norm(Input values) { return std::sqrt(dot(values, values)); }
double distance(Input a, Input b) {
  Array difference(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return norm(difference);
}

void expect_whole_attention(const CutProblem& p) {
  const double u = unit_of(p.type);
  const BlockResult forward = merged_forward(p, p.qkv);
  const Array out = p.to_tokens(values_of(forward.out), p.queries_width()), lse = p.to_tokens(values_of(forward.lse), 1);
  EXPECT_LE(distance(out, p.whole.forward.out), 1.5 * u * norm(p.whole.forward.out));
  EXPECT_LE(distance(lse, p.whole.forward.lse), kLseTolerance * norm(p.whole.forward.lse));
  const BlockGradients backward = added_backward(p);
  const Array expected = p.whole.expected_gradient();
  const double allowed = 2.0 * u * norm(expected);
  const Array dq = p.to_tokens(values_of(backward.dq), p.queries_width());
  const Array dkv = p.to_tokens(values_of(backward.dkv), p.kv_width());
  EXPECT_LE(distance(dq, p.columns(expected, 0, p.queries_width())), allowed);
  const Array expected_kv = p.columns(expected, p.queries_width(), p.kv_width());
  EXPECT_LE(distance(dkv, expected_kv), allowed);
  // The comparison can fail: without the keys' half of the gradient, it does.
  EXPECT_GT(norm(expected_kv), 10.0 * allowed);
}

void check_16_bits(const AttentionShape& shape, const std::vector<Count>& lengths, double dropout = 0.0,
                   const std::vector<std::int32_t>& first_keys = {}) {
  for (const DType type : kTypes) {
    SCOPED_TRACE(
        fmt::format("{} {} in runs of {}, dropout {}", name_of(type), describe(shape), fmt::join(lengths, ", "), dropout));
    expect_whole_attention(CutProblem(shape, lengths, dropout, 2.0, type, first_keys));
  }
}

TEST(PartialAttention16Bits, EqualChunks) {
  check_16_bits({2, 128, 4, 2, 64}, {64, 64});
  check_16_bits({1, 256, 4, 1, 128}, {64, 64, 64, 64});
  check_16_bits({1, 512, 2, 2, 64}, {256, 256});
  check_16_bits({1, 400, 4, 2, 64}, {200, 200});  // rows end within tiles
  check_16_bits({1, 300, 2, 1, 128}, {150, 150});
  check_16_bits({2, 4, 2, 1, 64}, {1, 1, 1, 1});
}

TEST(PartialAttention16Bits, UnequalRuns) {
  check_16_bits({1, 390, 4, 2, 64}, {130, 260});
  check_16_bits({1, 300, 2, 1, 128}, {299, 1});
  check_16_bits({2, 200, 4, 4, 64}, {1, 70, 129});
}

TEST(PartialAttention16Bits, SeparateDocuments) {
  for (const Count mean : {2, 50, 200}) {
    SCOPED_TRACE(fmt::format("documents of {} tokens on average", mean));
    for (const Count head_size : {32, 64, 128}) {
      check_16_bits({2, 256, 4, 2, head_size}, {128, 128}, 0.0, random_first_keys(2, 256, mean, 1));
      check_16_bits({1, 600, 2, 1, head_size}, {300, 300}, 0.0, random_first_keys(1, 600, mean, 2));
      check_16_bits({1, 390, 2, 2, head_size}, {130, 260}, 0.0, random_first_keys(1, 390, mean, 3));
    }
    check_16_bits({2, 150, 4, 2, 64}, {75, 75}, 0.2, random_first_keys(2, 150, mean, 4));
  }
}

TEST(PartialAttention16Bits, AnyHeadSize) {
  for (const Count head_size : {8, 16, 32, 48, 64, 96, 128}) {
    check_16_bits({1, 160, 4, 2, head_size}, {80, 80});
    check_16_bits({1, 150, 2, 1, head_size}, {33, 17, 100});
  }
}

TEST(PartialAttention16Bits, DropsWhatTheUndividedSequenceDrops) {
  check_16_bits({2, 150, 4, 2, 64}, {75, 75}, 0.2);
  check_16_bits({3, 70, 2, 2, 16}, {40, 30}, 0.5);
}

TEST(PartialAttention16Bits, OneBlockIsThatOfTheReference) {
  for (const DType type : kTypes) {
    for (reference::Block block : kBlocks) {
      for (const Count head_size : {8, 64, 128}) {
        block.head_size = head_size;
        SCOPED_TRACE(fmt::format("{} {} HS {}", name_of(type), describe(block), head_size));
        const OneHead p(block, 200, type);
        const reference::BlockForward expected = reference::block_forward(p.q, p.k, p.v, block);
        const BlockResult result = run_forward(p);
        const double u = unit_of(type);
        EXPECT_LE(distance(values_of(result.out), expected.out), 1.5 * u * norm(expected.out));
        for (Count i = 0; i < block.queries; ++i) {
          if (std::isinf(expected.lse[i]))
            EXPECT_EQ(values_of(result.lse)[i], expected.lse[i]);
          else
            EXPECT_NEAR(values_of(result.lse)[i], expected.lse[i], kLseTolerance * (1.0 + std::abs(expected.lse[i])));
        }
        const OneHeadBackward backward(p);
        const BlockGradients gradients{filled(p.queries_shape(), 1.0f), filled(p.kv_shape(), 1.0f)};
        backward.run(gradients);
        const reference::BlockBackward b = backward.expected();
        const Array dkv = p.side_by_side(b.dk, b.dv);
        const double allowed = 2.0 * u * std::hypot(norm(b.dq), norm(dkv));
        // What is there already rounds the sum: 1 + x to kEps / 2 of each of at most 80 x 256 elements.
        constexpr double kRounding = 150 * kEps;
        EXPECT_LE(distance(values_of(gradients.dq), sum(Array(b.dq.size(), 1.0), b.dq)), allowed + kRounding);
        EXPECT_LE(distance(values_of(gradients.dkv), sum(Array(dkv.size(), 1.0), dkv)), allowed + kRounding);
      }
    }
  }
}

TEST(PartialAttention16Bits, SameBitsEachTime) {
  for (const Count head_size : {32, 64, 128}) {
    const CutProblem p({2, 300, 4, 2, head_size}, {150, 150}, 0.0, 1.0, DType::bf16);
    EXPECT_TRUE(repeats([&] {
      const BlockResult forward = merged_forward(p, p.qkv);
      const BlockGradients backward = added_backward(p);
      return std::vector<Tensor>{forward.out, forward.lse, backward.dq, backward.dkv};
    }));
  }
}

// 16-bit inputs are widened exactly, and results are fp32: nothing is rounded to 16 bits.
TEST(PartialAttention16Bits, NarrowInputsGiveTheBitsOfTheirFp32Copies) {
  const CutProblem p({2, 20, 4, 2, 16}, {12, 8}, 0.2);
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "tensor cores take weights in 16 bits";
  for (const DType type : {DType::bf16, DType::f16}) {
    const Shape packed{2, 20, p.shape().packed_width()}, columns{2, 20, p.kv_width()};
    const auto narrow = [&](Input values, const Shape& shape) { return tensor_of_type(type, values, shape); };
    const Tensor q = narrow(p.qkv, packed), kv = narrow(p.columns(p.qkv, p.queries_width(), p.kv_width()), columns);
    const Tensor dout = narrow(p.dout, p.out_shape()), out = narrow(p.final_out, p.out_shape());
    const Tensor lse = tensor_of(p.final_lse, p.lse_shape());
    const auto run = [&](const auto& as) {
      const BlockResult forward{filled(p.out_shape(), 0.0f), filled(p.lse_shape(), 0.0f)};
      const BlockGradients backward{filled(p.out_shape(), 1.0f), filled(columns, 1.0f)};
      const PartialAttention block = p.block(1, 0);
      partial_attention_forward(test_exec(), block, forward.out, forward.lse, as(q), as(kv), scratch_of(block), p.whole.key);
      partial_attention_backward(test_exec(), block, backward.dq, backward.dkv, as(dout), as(out), lse, as(q), as(kv),
                                 scratch_of(block), p.whole.key);
      return std::vector<Tensor>{forward.out, forward.lse, backward.dq, backward.dkv};
    };
    const std::vector<Tensor> of_narrow = run([](const Tensor& x) { return x; });
    const std::vector<Tensor> of_fp32 = run([](const Tensor& x) { return to_host_fp32(x); });
    for (std::size_t i = 0; i < of_fp32.size(); ++i) EXPECT_TRUE(same_bits(of_narrow[i], of_fp32[i])) << name_of(type) << i;
  }
}

}  // namespace
}  // namespace cohort::ops
