// What merging two partial results keeps to, also where one of them, or both, are nothing.
#include "ops/compare.hpp"
#include "ops/partial_attention.hpp"
#include "ops/reference/partial_attention.hpp"

namespace cohort::ops {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr Count kRows = 9, kSize = 4;
const PartialAttention kBlock{{1, kRows, 1, 1, kSize}, {0, 0, kRows}, {0, 0, kRows}};

struct Part {
  Tensor out, lse;
};

Part random_part(std::uint32_t stream, double scale = 1.0) {
  return {tensor_of(random_values(kRows * kSize, stream), {1, kRows, kSize}),
          tensor_of(random_values(kRows, stream + 100, scale), {1, 1, kRows})};
}
Part nothing() { return {filled({1, kRows, kSize}, 0.0f), filled({1, 1, kRows}, kNothing)}; }

Part merged(const Part& a, const Part& b) {
  const Part result{copy_of(a.out), copy_of(a.lse)};
  attention_merge(test_exec(), kBlock, result.out, result.lse, b.out, b.lse);
  return result;
}

::testing::AssertionResult same(const Part& a, const Part& b) {
  if (!same_bits(a.out, b.out)) return ::testing::AssertionFailure() << "out differs";
  if (!same_bits(a.lse, b.lse)) return ::testing::AssertionFailure() << "lse differs";
  return ::testing::AssertionSuccess();
}

// out: numbers of about 3, ten roundings; lse: as large as the larger, one rounding, and three of a logarithm below 1.
::testing::AssertionResult near(const Part& part, const reference::BlockForward& expected) {
  if (const auto out = close(part.out, expected.out, 30 * kEps); !out) return out;
  Array tolerance;
  for (const double lse : expected.lse) tolerance.push_back(kEps * (3.0 + std::abs(lse)));
  return close(part.lse, expected.lse, tolerance);
}
reference::BlockForward reference_of(const Part& part) { return {values_of(part.out), values_of(part.lse)}; }

TEST(AttentionMerge, IsThatOfTheReference) {
  for (const double scale : {1.0, 30.0, 1e4}) {  // exp of 1e4 overflows, of -1e4 vanishes
    const Part a = random_part(1, scale), b = random_part(2, scale);
    EXPECT_TRUE(near(merged(a, b), reference::merge(reference_of(a), reference_of(b)))) << scale;
    EXPECT_TRUE(near(merged(b, a), reference::merge(reference_of(a), reference_of(b)))) << scale;
  }
}

TEST(AttentionMerge, OrderMattersOnlyToRounding) {
  const Part a = random_part(1), b = random_part(2), c = random_part(3);
  EXPECT_TRUE(near(merged(merged(a, b), c), reference_of(merged(a, merged(b, c)))));
}

TEST(AttentionMerge, WithNothingChangesNothing) {
  const Part a = random_part(1, 30.0);
  EXPECT_TRUE(same(merged(a, nothing()), a));
  EXPECT_TRUE(same(merged(nothing(), a), a));
  EXPECT_TRUE(same(merged(nothing(), nothing()), nothing()));
}

TEST(AttentionMerge, OfEqualsIsTheirMean) {
  const Part a = random_part(1);
  Part b = random_part(2);
  b.lse.copy_from(a.lse);
  Array mean = sum(values_of(a.out), values_of(b.out)), lse = values_of(a.lse);
  for (double& value : mean) value *= 0.5;
  for (double& value : lse) value += std::log(2.0);
  EXPECT_TRUE(near(merged(a, b), {mean, lse}));
}

// What is not finite must be seen at the end, not be lost in a weight of 0.
TEST(AttentionMerge, NotANumberStaysOne) {
  const Part nan{filled({1, kRows, kSize}, kGarbage), filled({1, 1, kRows}, kGarbage)};
  for (const Part& other : {random_part(1), nothing()}) {
    for (const Part& result : {merged(nan, other), merged(other, nan)}) {
      for (const double value : values_of(result.out)) EXPECT_TRUE(std::isnan(value));
      for (const double value : values_of(result.lse)) EXPECT_TRUE(std::isnan(value));
    }
  }
}

}  // namespace
}  // namespace cohort::ops
