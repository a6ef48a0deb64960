// The counter-based generator: known answers, and that its numbers are distributed as they should be.
#include "base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace cohort {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers for philox4x32-10 published with the generator's reference implementation (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

// Every part of the address of a number counts: change one and the numbers differ.
TEST(CounterRandom, EveryPartOfTheAddressCounts) {
  std::set<std::uint64_t> seen;
  for (const std::uint64_t seed : {1ull, 2ull, 1ull + (1ull << 32)}) {
    for (const RandomPurpose purpose : {RandomPurpose::init, RandomPurpose::dropout, RandomPurpose::shuffle}) {
      for (const std::uint32_t step : {0u, 1u}) {
        for (const std::uint32_t stream : {0u, 1u}) {
          const CounterRandom random(seed, purpose, step, stream);
          for (const std::uint64_t index : {0ull, 1ull, 1ull << 32}) seen.insert(random.u64(index));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 3u * 3u * 2u * 2u * 3u);
}

struct Moments {
  double mean = 0.0;
  double variance = 0.0;
};

template <class Draw>
Moments moments(int count, const Draw& draw) {
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < count; ++i) {
    const double value = draw(static_cast<std::uint64_t>(i));
    sum += value;
    squares += value * value;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

constexpr int kDraws = 200000;
// Tolerances are 5 standard errors: a right generator with another seed would fail less than once in a million. Standard error of
// the mean: sigma / sqrt(n). Of the variance: sqrt((kurtosis - 1) / n) sigma^2, with kurtosis 9/5 (uniform) or 3 (normal).
TEST(CounterRandom, UniformHasMeanAndVarianceOfItsDistribution) {
  const CounterRandom random(42, RandomPurpose::test);
  const Moments found = moments(kDraws, [&](std::uint64_t i) {
    const double value = random.uniform(i);
    EXPECT_GE(value, 0.0);
    EXPECT_LT(value, 1.0);
    return value;
  });
  EXPECT_NEAR(found.mean, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(found.variance, 1.0 / 12, 5 * std::sqrt(0.8 / kDraws) / 12);
}

TEST(CounterRandom, NormalHasMeanVarianceAndTailsOfItsDistribution) {
  const CounterRandom random(42, RandomPurpose::test);
  int beyond_two = 0;
  const Moments found = moments(kDraws, [&](std::uint64_t i) {
    const double value = random.normal(i);
    EXPECT_TRUE(std::isfinite(value));
    beyond_two += std::fabs(value) > 2.0 ? 1 : 0;
    return value;
  });
  EXPECT_NEAR(found.mean, 0.0, 5 * std::sqrt(1.0 / kDraws));
  EXPECT_NEAR(found.variance, 1.0, 5 * std::sqrt(2.0 / kDraws));
  const double tail = std::erfc(2.0 / std::sqrt(2.0));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, tail, 5 * std::sqrt(tail * (1 - tail) / kDraws));
}

// Neighbouring elements must not be correlated: the index goes into the counter unscrambled.
TEST(CounterRandom, NeighboursAreUncorrelated) {
  const CounterRandom random(7, RandomPurpose::test);
  double product = 0.0;
  for (std::uint64_t i = 0; i < kDraws; ++i) product += random.normal(i) * random.normal(i + 1);
  EXPECT_NEAR(product / kDraws, 0.0, 5 / std::sqrt(static_cast<double>(kDraws)));
}

}  // namespace
}  // namespace cohort
