// Mixtures: proportions within one sample at each moment, the same for any layout, and every sample of a source once per epoch.
#include "data/mixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <set>

#include "base/random.hpp"
#include "data/sampler.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

using Weights = std::vector<double>;

// Some thought out, some at random: with few digits, with many, and of very different sizes.
std::vector<Weights> many_weights() {
  std::vector<Weights> all{
      {1}, {0.7, 0.3}, {1, 2}, {1, 0, 1}, {0.5, 0.3, 0.2}, {1e-7, 1}, {13, 8, 5, 3, 2, 1, 1}, {0.98, 0.01, 0.01}};
  const CounterRandom random(7, RandomPurpose::test);
  for (std::uint64_t i = 0; i < 40; ++i) {
    Weights weights;
    for (std::uint64_t source = 0; source < 2 + i % 6; ++source) {
      const double number = random.words(i)[0] * 0x1.0p-32 + random.words(100 * i + source)[1] * 0x1.0p-32;
      weights.push_back(i % 2 == 0 ? std::ceil(number * 20) : number * number);
    }
    all.push_back(weights);
  }
  return all;
}

TEST(SourcePattern, AllProportionsAreWithinOneSampleAtEachMoment) {
  for (const Weights& weights : many_weights()) {
    const SourcePattern pattern(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<Count> taken(weights.size());
    const Count positions = std::min<Count>(2 * pattern.length() + 3, 100000);
    for (Count n = 1; n <= positions; ++n) {
      const SourcePattern::Place place = pattern.at(n - 1);
      ASSERT_EQ(place.index, taken[place.source]++) << "the places of a source are counted";
      for (std::size_t i = 0; i < weights.size(); ++i) {
        // |taken - share n| < 1, in whole numbers.
        ASSERT_LT(std::abs(taken[i] * pattern.length() - pattern.turns(i) * n), pattern.length())
            << "source " << i << " of " << n;
        ASSERT_EQ(pattern.taken(i, n), taken[i]);
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double share = static_cast<double>(pattern.turns(i)) / static_cast<double>(pattern.length());
      EXPECT_NEAR(share, weights[i] / sum, 1.0 / SourcePattern::kMaxLength);
      EXPECT_EQ(pattern.turns(i) == 0, weights[i] == 0.0);
    }
  }
}

TEST(SourcePattern, IsAsLongAsTheSharesNeed) {
  EXPECT_EQ(SourcePattern({0.7, 0.3}).length(), 10);
  EXPECT_EQ(SourcePattern({7, 3}).length(), 10);
  EXPECT_EQ(SourcePattern({1, 2}).length(), 3);
  EXPECT_EQ(SourcePattern({0.1, 0.2, 0.7}).length(), 10);
  EXPECT_EQ(SourcePattern({5, 0, 5}).length(), 2);
  EXPECT_EQ(SourcePattern({0.333, 0.667}).length(), 1000);
  EXPECT_EQ(SourcePattern({1e-9, 1}).length(), SourcePattern::kMaxLength);
  EXPECT_EQ(SourcePattern({1e-9, 1}).turns(0), 1);
  EXPECT_EQ(SourcePattern({std::numbers::pi, 1, 1}).length(), SourcePattern::kMaxLength);
}

TEST(SourcePattern, KnowsTheMostOfAStretch) {
  for (const Weights& weights : many_weights()) {
    const SourcePattern pattern(weights);
    if (pattern.length() > 1000) continue;
    for (const Count stretch : {Count{1}, Count{3}, Count{8}, pattern.length(), 2 * pattern.length() + 1}) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        Count most = 0;
        for (Count begin = 0; begin < pattern.length(); ++begin)
          most = std::max(most, pattern.taken(i, begin + stretch) - pattern.taken(i, begin));
        EXPECT_EQ(pattern.most(i, stretch), most);
      }
    }
  }
}

const std::vector<MixtureStage> kStagesOfMixture{
    {0, {0.7, 0.3, 0.0}}, {7, {0.2, 0.3, 0.5}}, {8, {0.0, 0.0, 1.0}}, {23, {1.0, 1.0, 1.0}}};
constexpr Count kStepOfMixture = 12;
const std::vector<DatasetPart> kSourcesOfMixture{{"web", 0, 101}, {"code", 101, 40}, {"books", 141, 33}};

TEST(Mixture, CountsOnWhereTheStageBeforeEnded) {
  const Mixture mixture(kStagesOfMixture, kStepOfMixture);
  std::vector<Count> taken(3);
  for (Count position = 0; position < 40 * kStepOfMixture; ++position) {
    const Count step = position / kStepOfMixture;
    std::size_t stage = kStagesOfMixture.size() - 1;
    while (kStagesOfMixture[stage].first_step > step) --stage;
    for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(mixture.taken(i, position), taken[i]) << "position " << position;
    const SourcePattern::Place place = mixture.at(position);
    ASSERT_GT(kStagesOfMixture[stage].weights[place.source], 0.0) << "position " << position;
    ASSERT_EQ(place.index, taken[place.source]++) << "position " << position;
  }
  EXPECT_EQ(mixture.taken(2, 8 * kStepOfMixture), 6) << "half of the one step of the second stage";
  EXPECT_EQ(mixture.taken(2, 23 * kStepOfMixture), 6 + 15 * kStepOfMixture);
  EXPECT_EQ(mixture.most_of_a_step(2), kStepOfMixture);
  EXPECT_EQ(mixture.most_of_a_step(0), 9) << "of 12 places 7 tenths";
}

TEST(MixtureSampler, TheSameSamplesForAnyLayout) {
  const Sampler sampler(kSourcesOfMixture, kStagesOfMixture, 77, kStepOfMixture);
  for (Count step = 0; step < 30; ++step) {
    const std::vector<Count> one_rank = sampler.local_samples(step, 0, 0, 1, kStepOfMixture);
    for (const Count dp : {1, 2, 3, 4, 6}) {
      for (const Count micro_batch : {1, 2, 3, 4, 6, 12}) {
        if (kStepOfMixture % (dp * micro_batch) != 0) continue;
        std::vector<Count> together;
        for (Count m = 0; m < kStepOfMixture / (dp * micro_batch); ++m) {
          for (Count rank = 0; rank < dp; ++rank) {
            const auto part = sampler.local_samples(step, m, rank, dp, micro_batch);
            together.insert(together.end(), part.begin(), part.end());
          }
        }
        ASSERT_EQ(together, one_rank) << "dp " << dp << ", micro-batch " << micro_batch;
      }
    }
  }
}

TEST(MixtureSampler, EverySampleOfASourceOncePerEpoch) {
  const Sampler sampler(kSourcesOfMixture, kStagesOfMixture, 5, kStepOfMixture);
  std::map<std::pair<std::size_t, std::uint64_t>, std::set<Count>> seen;  // of each source and epoch
  std::vector<Count> taken(3);
  for (Count position = 0; position < 200 * kStepOfMixture; ++position) {
    const Sampler::Draw draw = sampler.draw_at(position);
    const DatasetPart& source = kSourcesOfMixture[draw.source];
    ASSERT_TRUE(draw.sample >= 0 && draw.sample < source.samples);
    ASSERT_TRUE(seen[std::pair(draw.source, draw.epoch)].insert(draw.sample).second) << source.name << ", sample " << draw.sample;
    ASSERT_EQ(sampler.sample_at(position), source.first + draw.sample);
    ++taken[draw.source];
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(sampler.epochs(i, 200), static_cast<double>(taken[i]) / static_cast<double>(kSourcesOfMixture[i].samples));
    for (std::uint64_t epoch = 0; static_cast<Count>(epoch) < taken[i] / kSourcesOfMixture[i].samples; ++epoch)
      EXPECT_EQ(static_cast<Count>((seen[{i, epoch}].size())), kSourcesOfMixture[i].samples) << "a whole epoch before the next";
  }
}

TEST(MixtureSampler, SourcesOfOneSizeHaveOrdersOfTheirOwn) {
  const Sampler sampler({{"a", 0, 50}, {"b", 50, 50}}, {{0, {1, 1}}}, 3, 10);
  std::vector<std::set<Count>> steps[2];  // the samples of each, step by step, whatever their places in it
  for (Count step = 0; step < 10; ++step) {
    for (std::vector<std::set<Count>>& of_source : steps) of_source.emplace_back();
    for (Count slot = 0; slot < 10; ++slot) {
      const Sampler::Draw draw = sampler.draw_at(step * 10 + slot);
      steps[draw.source].back().insert(draw.sample);
    }
  }
  EXPECT_NE(steps[0], steps[1]);
}

// Else a rank whose slots fall together with the pattern would have one source alone, step after step.
TEST(MixtureSampler, ThePlacesOfAStepAreShuffled) {
  const Sampler sampler(kSourcesOfMixture, {{0, {1, 1, 0}}}, 3, kStepOfMixture);
  std::set<std::vector<std::size_t>> orders;
  for (Count step = 0; step < 20; ++step) {
    std::vector<std::size_t> order;
    for (Count slot = 0; slot < kStepOfMixture; ++slot) order.push_back(sampler.draw_at(step * kStepOfMixture + slot).source);
    EXPECT_EQ(std::ranges::count(order, 0), kStepOfMixture / 2) << "each step has its share";
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 15u);
}

// The order of runs of earlier versions, and of a mixture of one source.
TEST(MixtureSampler, OneSourceHasTheOrderThatItAlwaysHad) {
  const Sampler alone(100, 3, 4, "test");
  const Sampler mixture({{"web", 0, 100}}, {{0, {1}}, {17, {5}}}, 3, 4);
  std::vector<Count> first;
  for (Count position = 0; position < 500; ++position) {
    ASSERT_EQ(mixture.sample_at(position), alone.sample_at(position));
    ASSERT_EQ(alone.sample_at(position), Permutation(100, 3, static_cast<std::uint64_t>(position / 100))(position % 100));
    if (position < 10) first.push_back(alone.sample_at(position));
  }
  EXPECT_EQ(first, (std::vector<Count>{63, 86, 68, 77, 76, 98, 80, 16, 96, 27}));
}

TEST(MixtureSampler, RefusesASourceThatIsTooSmallForAStep) {
  EXPECT_ERROR(Sampler(kSourcesOfMixture, {{0, {0.1, 0.1, 0.8}}}, 1, 60), ExitCode::config, "'books' has 33 samples", "up to 48");
  EXPECT_NO_THROW(Sampler(kSourcesOfMixture, {{0, {0.5, 0.5, 0.0}}}, 1, 60)) << "books are only validated";
}

}  // namespace
}  // namespace cohort
