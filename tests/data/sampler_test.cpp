// The sampler: every sample once per epoch, the same order for any number of ranks, and nothing left out in validation.
#include "data/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

std::vector<Count> all_of(const Permutation& permutation, Count size) {
  std::vector<Count> values(static_cast<std::size_t>(size));
  for (Count i = 0; i < size; ++i) values[static_cast<std::size_t>(i)] = permutation(i);
  return values;
}

std::vector<Count> first_numbers(Count size) {
  std::vector<Count> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), Count{0});
  return values;
}

TEST(Permutation, IsOneForEverySize) {
  for (Count size = 1; size <= 300; ++size) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<Count> values = all_of(Permutation(size, 42, epoch), size);
      std::sort(values.begin(), values.end());
      ASSERT_EQ(values, first_numbers(size));
    }
  }
  std::vector<Count> large = all_of(Permutation(100003, 1, 0), 100003);
  std::sort(large.begin(), large.end());
  EXPECT_EQ(large, first_numbers(100003));
}

TEST(Permutation, DiffersBySeedAndEpoch) {
  const auto order = all_of(Permutation(1000, 1, 0), 1000);
  EXPECT_EQ(order, all_of(Permutation(1000, 1, 0), 1000));
  EXPECT_NE(order, all_of(Permutation(1000, 2, 0), 1000));
  EXPECT_NE(order, all_of(Permutation(1000, 1, 1), 1000));
  EXPECT_NE(order, all_of(Permutation(1000, 1, std::uint64_t{1} << 32), 1000));
  EXPECT_NE(order, first_numbers(1000));
}

// Over many seeds, each index goes everywhere about equally often: chi squared with size - 1 degrees of freedom has mean size - 1
// and variance 2 (size - 1); the bound is the mean plus 6 standard deviations, and the seeds are fixed.
TEST(Permutation, GoesEverywhere) {
  constexpr int kSeeds = 6000;
  for (const Count size : {2, 3, 5, 16, 17, 60}) {
    for (const Count index : {Count{0}, size / 2, size - 1}) {
      std::vector<double> hits(static_cast<std::size_t>(size));
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) ++hits[static_cast<std::size_t>(Permutation(size, seed, 0)(index))];
      const double expected = kSeeds / static_cast<double>(size);
      double chi_squared = 0;
      for (const double hit : hits) chi_squared += (hit - expected) * (hit - expected) / expected;
      const double freedom = static_cast<double>(size - 1);
      EXPECT_LT(chi_squared, freedom + 6 * std::sqrt(2 * freedom)) << "size " << size << ", index " << index;
    }
  }
}

TEST(Permutation, ManyMoreSamplesThan32Bits) {
  constexpr Count kSize = (Count{1} << 52) + 12345;
  const Permutation permutation(kSize, 9, 3);
  std::set<Count> seen;
  for (Count i = 0; i < 2000; ++i) {
    const Count value = permutation(kSize - 1 - i);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, kSize);
    ASSERT_TRUE(seen.insert(value).second);
  }
}

TEST(Sampler, EverySampleOncePerEpochWhateverTheBatch) {
  for (const Count samples : {1, 2, 7, 24, 97, 256}) {
    for (const Count batch : {1, 2, 3, 5, 8, 24, 97, 256}) {
      if (batch > samples) continue;
      const Sampler sampler(samples, 5, batch, "test");
      std::vector<int> taken(static_cast<std::size_t>(samples));
      constexpr Count kEpochs = 3;
      Count position = 0;
      for (Count step = 0; position < kEpochs * samples; ++step) {
        for (const Count p : sampler.local_positions(step, 0, 0, 1, batch)) {
          ASSERT_EQ(p, position++);
          ++taken[static_cast<std::size_t>(sampler.sample_at(p))];
          if (position % samples != 0) continue;
          // An epoch ends here, maybe within a step.
          for (const int times : taken) ASSERT_EQ(times, position / samples) << samples << " samples, batch " << batch;
        }
      }
    }
  }
}

TEST(Sampler, TheSameSlotsForAnyNumberOfRanks) {
  constexpr Count kBatch = 48;
  const Sampler sampler(101, 77, kBatch, "test");
  for (Count step = 0; step < 7; ++step) {
    const std::vector<Count> one_rank = sampler.local_samples(step, 0, 0, 1, kBatch);
    for (const Count dp : {1, 2, 3, 4, 6, 8, 16}) {
      for (const Count micro_batch : {1, 2, 3, 4, 6, 8, 12, 48}) {
        if (kBatch % (dp * micro_batch) != 0) continue;
        std::vector<Count> together;
        for (Count m = 0; m < kBatch / (dp * micro_batch); ++m) {
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

TEST(Sampler, TheOrderOfSamplesDoesNotDependOnTheGlobalBatch) {
  const Sampler small(100, 3, 4, "test");
  const Sampler large(100, 3, 50, "test");
  for (Count position = 0; position < 500; ++position) ASSERT_EQ(small.sample_at(position), large.sample_at(position));
}

TEST(Sampler, FarStepsDoNotOverflow) {
  const Sampler sampler(Count{1} << 40, 3, 1 << 20, "test");
  const Count step = (Count{1} << 62) / (1 << 20) - 1;
  for (const Count sample : sampler.local_samples(step, 3, 1, 4, 8)) {
    EXPECT_GE(sample, 0);
    EXPECT_LT(sample, Count{1} << 40);
  }
  EXPECT_ERROR((void)sampler.local_positions(Count{1} << 62, 0, 0, 1, 1), ExitCode::internal, "beyond 64 bits");
}

TEST(Sampler, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(Sampler(7, 1, 8, "x.h5"), ExitCode::config, "x.h5", "7 samples", "global batch of 8");
  const Sampler sampler(100, 1, 12, "test");
  EXPECT_ERROR((void)sampler.local_positions(0, 0, 0, 5, 1), ExitCode::internal, "global batch of 12");
  EXPECT_ERROR((void)sampler.local_positions(0, 3, 0, 2, 2), ExitCode::internal, "micro-batch 3");
  EXPECT_ERROR((void)sampler.local_positions(0, 0, 2, 2, 2), ExitCode::internal, "rank 2 of 2");
}

TEST(Windows, CountedFromTokens) {
  EXPECT_EQ(count_windows(65, 64, "x"), 1);
  EXPECT_EQ(count_windows(128, 64, "x"), 1);
  EXPECT_EQ(count_windows(129, 64, "x"), 2);
  EXPECT_EQ(count_windows(2, 1, "x"), 1);
  EXPECT_EQ(count_windows(Count{3} << 40, 3, "x"), (Count{1} << 40) - 1);
  for (const Count tokens : {0, 1, 2, 63, 64}) {
    EXPECT_ERROR((void)count_windows(tokens, 64, "x.h5: /train"), ExitCode::data, "x.h5: /train",
                 fmt::format("has {} token", tokens).c_str(), "at least 65");
  }
}

TEST(ValidationPlan, EverySampleOnceAndTheSameNumberOfCalls) {
  for (const Count samples : {1, 2, 5, 16, 33}) {
    for (const Count micro_batch : {1, 3, 8, 64}) {
      for (const Count limit : {0, 1, 2, 7, 100}) {
        std::set<Count> first;
        for (const Count dp : {1, 2, 3, 4, 7}) {
          const ValidationPlan plan{samples, micro_batch, dp, limit};
          std::vector<Count> seen;
          for (Count call = 0; call < plan.calls(); ++call) {
            for (Count rank = 0; rank < dp; ++rank) {
              const auto ids = plan.ids(call, rank);
              ASSERT_LE(static_cast<Count>(ids.size()), micro_batch);
              seen.insert(seen.end(), ids.begin(), ids.end());
            }
          }
          ASSERT_EQ(seen, first_numbers(plan.used()));                              // in order, each once
          ASSERT_EQ(plan.used(), limit == 0 ? samples : std::min(samples, limit));  // whatever dp and micro-batch are
          ASSERT_EQ(plan.calls(), (plan.used() + dp * micro_batch - 1) / (dp * micro_batch));
        }
      }
    }
  }
}

}  // namespace
}  // namespace cohort
