// Attention against its reference, over shapes, with and without dropout and with sharp weights.
#include "ops/attention_problem.hpp"

namespace cohort::ops {
namespace {

void check(const AttentionShape& shape, double dropout = 0.0, double sharpness = 1.0) {
  SCOPED_TRACE(fmt::format("{} dropout {} sharpness {}", describe(shape), dropout, sharpness));
  const AttentionProblem p(shape, dropout, sharpness);
  const std::vector<Tensor> forward = run_forward(p, p.qkv);
  EXPECT_TRUE(close(forward[0], p.forward.out, p.out_tolerance()));
  EXPECT_TRUE(close(forward[1], p.forward.lse, p.lse_tolerance()));
  EXPECT_TRUE(close(run_backward(p), p.expected_gradient(), p.gradient_tolerance()));
}

TEST(Attention, AnyNumberOfTokens) {
  for (const Count tokens : {1, 2, 7, 33, 64, 100}) {
    for (const Count kv_heads : {1, 2, 4}) check({2, tokens, 4, kv_heads, 16});
  }
  check({1, 257, 2, 1, 32});
  check({1, 128, 1, 1, 64});
  check({1, 129, 3, 3, 4});
}

TEST(Attention, AnyHeadSize) {
  for (const Count head_size : {2, 4, 16, 32, 64, 80, 128}) {
    check({1, 33, 2, 2, head_size});
    check({2, 7, 4, 2, head_size});
  }
  check({1, 100, 2, 1, 128});
}

TEST(Attention, GroupsOfOddSize) {
  check({2, 33, 6, 2, 16});
  check({1, 33, 3, 1, 80});
  check({3, 17, 5, 5, 4});
}

TEST(Attention, Dropout) {
  for (const Count tokens : {1, 2, 33, 100}) check({2, tokens, 4, 2, 16}, 0.2);
  check({3, 65, 2, 2, 64}, 0.5);
}

// Scores of +-30 and +-120: exp of them overflows or loses all digits unless the largest is taken off first.
TEST(Attention, SharpWeights) {
  for (const double sharpness : {8.0, 32.0}) {
    check({1, 33, 2, 2, 16}, 0.0, sharpness);
    check({2, 100, 2, 1, 64}, 0.0, sharpness);
  }
}

TEST(Attention, HugeScoresStayFinite) {
  AttentionProblem p({1, 65, 2, 1, 16}, 0.0, 4096.0);  // scores of +-15000: each row looks at one token alone
  const std::vector<Tensor> forward = run_forward(p, p.qkv);
  // Rows whose two best scores lie far apart have exact answers: the value of the best token.
  const Array tolerance = p.out_tolerance();
  for (const double value : values_of(forward[0])) EXPECT_TRUE(std::isfinite(value));
  for (const double value : values_of(run_backward(p))) EXPECT_TRUE(std::isfinite(value));
  EXPECT_TRUE(close(forward[0], p.forward.out, tolerance));
}

}  // namespace
}  // namespace cohort::ops
