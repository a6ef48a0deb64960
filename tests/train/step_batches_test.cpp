// Who gets which samples, without ranks: the layouts are only numbers.
#include "train/step_batches.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace cohort::test {
namespace {

constexpr Count kSamples = 100;
constexpr Count kGlobalBatch = 24;

class StepBatchesTest : public ::testing::Test {
 protected:
  StepBatches batches(int rank, int ranks, Count accumulation) const {
    TrainSection train;
    train.micro_batch = kGlobalBatch / (ranks * accumulation);
    train.global_batch = kGlobalBatch;
    train.accumulation = accumulation;
    return StepBatches(dataset_, sampler_, train, BatchShare{rank, ranks}, DeviceKind::cpu);
  }

  TwoMoonsDataset dataset_{1, 4, kSamples};
  Sampler sampler_{kSamples, 7, kGlobalBatch, "test"};
};

// Slots key the dropout masks, so a sample must have the same slot in every layout.
TEST_F(StepBatchesTest, EveryLayoutGivesEverySlotTheSameSample) {
  for (const Count step : {0, 3, 4, 57}) {  // step 4 spans two epochs
    for (const int ranks : {1, 2, 3, 4}) {
      for (const Count accumulation : {1, 2}) {
        SCOPED_TRACE(testing::Message() << "step " << step << ", " << ranks << " ranks, accumulation " << accumulation);
        std::map<Count, Count> sample_of_slot;
        Count targets = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          StepBatches mine = batches(rank, ranks, accumulation);
          mine.load(step);
          ASSERT_EQ(mine.inputs().size(), static_cast<std::size_t>(accumulation));
          const std::vector<Count> ids = mine.sample_ids();
          std::size_t i = 0;
          for (const ModelInput& input : mine.inputs()) {
            ASSERT_EQ(input.samples, kGlobalBatch / (ranks * accumulation));
            for (const Count slot : input.slots) EXPECT_TRUE(sample_of_slot.emplace(slot, ids.at(i++)).second) << "slot " << slot;
          }
          targets += mine.valid_targets();
        }
        EXPECT_EQ(targets, kGlobalBatch);
        ASSERT_EQ(sample_of_slot.size(), static_cast<std::size_t>(kGlobalBatch));
        for (const auto& [slot, sample] : sample_of_slot) EXPECT_EQ(sample, sampler_.sample_at(step * kGlobalBatch + slot));
      }
    }
  }
}

TEST_F(StepBatchesTest, AnEpochTakesEverySampleOnceWhateverTheRanks) {
  for (const int ranks : {1, 3, 4}) {
    std::vector<Count> taken;
    for (Count step = 0; step * kGlobalBatch < kSamples; ++step) {
      std::map<Count, Count> sample_of_slot;
      for (int rank = 0; rank < ranks; ++rank) {
        StepBatches mine = batches(rank, ranks, 1);
        mine.load(step);
        const std::vector<Count> ids = mine.sample_ids();
        for (std::size_t i = 0; i < ids.size(); ++i) sample_of_slot[mine.inputs()[0].slots[i]] = ids[i];
      }
      for (const auto& [slot, sample] : sample_of_slot) taken.push_back(sample);
    }
    taken.resize(kSamples);  // the rest of the last step belongs to the next epoch
    EXPECT_EQ(std::set<Count>(taken.begin(), taken.end()).size(), static_cast<std::size_t>(kSamples));
  }
}

TEST_F(StepBatchesTest, LoadingAStepAgainGivesTheSameAgain) {
  StepBatches mine = batches(1, 2, 2);
  mine.load(5);
  const std::vector<Count> ids = mine.sample_ids();
  const std::vector<float> features(mine.inputs()[1].features.begin(), mine.inputs()[1].features.end());
  mine.load(6);
  EXPECT_NE(mine.sample_ids(), ids);
  mine.load(5);
  EXPECT_EQ(mine.sample_ids(), ids);
  EXPECT_EQ(std::vector<float>(mine.inputs()[1].features.begin(), mine.inputs()[1].features.end()), features);
}

}  // namespace
}  // namespace cohort::test
