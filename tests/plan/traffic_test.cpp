// What a counted step sends, against formulas written down by hand: since it is the step's own code that is counted, a strategy
// that sends too much or too little changes the prediction, and these fail. That steps really send it, measure_test.cpp shows.
#include "plan/traffic.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "models/model.hpp"
#include "planned_run.hpp"
#include "whole_step.hpp"

namespace cohort::test {
namespace {

constexpr Count kLayers = 4, kWidth = 64, kContext = 64, kSamples = 4, kBatch = 48;
constexpr Bytes kFloat = 4;
constexpr Bytes kNumber = 8;  // loss or gradient norm of a step, summed over the ranks in fp64

std::map<std::string, Bytes> given(const RunConfig& config) {
  std::map<std::string, Bytes> bytes;
  for (const Traffic& one : predict_traffic(config)) bytes[one.group + " " + one.operation] = one.bytes;
  return bytes;
}

Count parameters() { return count_parameters(planned_run(1).model); }

// Groups of ZeRO are rounded up to blocks of 64 elements: of six groups at most.
constexpr Bytes kRounding = 6 * 4 * 64 * kFloat;

TEST(Traffic, OneRankSendsNothing) { EXPECT_TRUE(predict_traffic(planned_run(1)).empty()); }

TEST(Traffic, DataParallelismSendsEachGradientOnce) {
  for (const char* data : {"naive", "hooks", "bucketed"}) {
    const auto bytes = given(planned_run(4, {std::string("parallel.data=") + data}));
    EXPECT_EQ(bytes, (std::map<std::string, Bytes>{{"dp all_reduce", parameters() * kFloat + kNumber}})) << data;
  }
}

// Three micro-batches a step: stage 1 reduces once, stages 2 and 3 each time. The embedding, tied to the head, is gathered twice
// as the blocks are; positions and the final norm lie in groups with it or are small.
TEST(Traffic, ZeroStagesSendWhatTheirDivisionCosts) {
  const Bytes whole = parameters() * kFloat;
  const auto near = [](Bytes value, Bytes wanted, Count times) { return value >= wanted && value <= wanted + times * kRounding; };
  const auto zero1 = given(planned_run(4, {"parallel.data=zero1"}));
  EXPECT_TRUE(near(zero1.at("dp reduce_scatter"), whole, 1));
  EXPECT_TRUE(near(zero1.at("dp all_gather"), whole, 1));
  const auto zero2 = given(planned_run(4, {"parallel.data=zero2"}));
  EXPECT_TRUE(near(zero2.at("dp reduce_scatter"), 3 * whole, 3));
  EXPECT_TRUE(near(zero2.at("dp all_gather"), whole, 1));
  const auto zero3 = given(planned_run(4, {"parallel.data=zero3"}));
  EXPECT_TRUE(near(zero3.at("dp reduce_scatter"), 3 * whole, 3));
  const Bytes final_norm = 2 * kWidth * kFloat;  // a group of its own, which stays from forward to backward
  EXPECT_TRUE(near(zero3.at("dp all_gather"), 3 * (2 * whole - final_norm), 6)) << zero3.at("dp all_gather");
  // In one group the model is gathered once a micro-batch and stays.
  const auto in_one = given(planned_run(4, {"parallel.data=zero3", "parallel.wrap=model"}));
  EXPECT_TRUE(near(in_one.at("dp all_gather"), 3 * whole, 3));
}

TEST(Traffic, HybridShardsSendBlocksToTheirReplicas) {
  const auto bytes = given(planned_run(4, {"parallel.data=zero3", "parallel.shard_ranks=2"}));
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_EQ(bytes.at("dp.replicas all_reduce") * 2, bytes.at("dp.shards reduce_scatter"));
}

// Li et al. 2020, section 3.2.3: from the last gradient to the first, a bucket takes gradients until it is as large as was asked.
TEST(Traffic, BucketsAreAsLargeAsAsked) {
  for (const Bytes kib : {16, 64, 256}) {
    const RunConfig config = planned_run(2, {fmt::format("parallel.bucket_mib={}", static_cast<double>(kib) / 1024.0)});
    const auto model = declare_model(config.model);
    Count buckets = 0;
    Bytes room = 0;
    for (auto it = model->parameters().all().rbegin(); it != model->parameters().all().rend(); ++it) {
      if (room <= 0) {
        ++buckets;
        room = kib * kKiB;
      }
      room -= (*it)->elements() * kFloat;
    }
    EXPECT_GT(buckets, 1);
    EXPECT_EQ(predict_traffic(config).at(0).calls, buckets + 1) << kib;  // and the loss
  }
}

// Micro-batches between the first and the last send alike, so that not all need be counted.
TEST(Traffic, OfManyMicroBatchesIsThatOfThreeExtended) {
  for (const char* data : {"naive", "hooks", "bucketed", "zero1", "zero2", "zero3"}) {
    for (const char* more : {"parallel.tp=1", "parallel.tp=2", "parallel.cp=2"}) {
      const RunConfig config = planned_run(2, {std::string("parallel.data=") + data, more});
      ASSERT_GT(config.train.accumulation, 3);
      const CountedStep some = count_step(config, 0), all = count_whole_step(config, 0);
      ASSERT_EQ(some.traffic.size(), all.traffic.size());
      for (const auto& [key, totals] : all.traffic) {
        EXPECT_EQ(some.traffic.at(key).calls, totals.calls) << data << " " << more << " " << key.second;
        EXPECT_EQ(some.traffic.at(key).bytes, totals.bytes) << data << " " << more << " " << key.second;
      }
      EXPECT_EQ(some.memory.kinds.values, all.memory.kinds.values) << data << " " << more;
    }
  }
  for (const char* more : {"parallel.schedule=1f1b", "parallel.schedule=gpipe", "parallel.schedule=interleaved"}) {
    for (const char* batch : {"train.global_batch=48", "train.global_batch=44"}) {
      if (std::string(more).ends_with("interleaved") && std::string(batch).ends_with("44")) continue;  // 11 of two stages
      std::vector<std::string> overrides{"parallel.pp=2", more, batch};
      if (std::string(more).ends_with("interleaved")) overrides.emplace_back("parallel.chunks=2");
      const RunConfig config = planned_run(2, overrides);
      for (int stage = 0; stage < 2; ++stage) {
        const CountedStep some = count_step(config, stage), all = count_whole_step(config, stage);
        for (const auto& [key, totals] : all.traffic) EXPECT_EQ(some.traffic.at(key).bytes, totals.bytes) << more << " " << batch;
        EXPECT_EQ(some.memory.kinds.values, all.memory.kinds.values) << more << " " << batch;
        EXPECT_EQ(some.arenas.under_way, all.arenas.under_way) << more << " " << batch;
      }
    }
  }
}

TEST(Traffic, SumsIn16BitsHalveTheGradients) {
  const auto wide = given(planned_run(2, {"precision.policy=bf16"}));
  const auto narrow = given(planned_run(2, {"precision.policy=bf16", "precision.reduction=compute"}));
  EXPECT_EQ(wide.at("dp all_reduce") - kNumber, 2 * (narrow.at("dp all_reduce") - kNumber));
}

// Liu et al. 2023: keys and values of the rows go round, and their gradients in fp32.
TEST(Traffic, RingAttentionSendsKeysAndValues) {
  constexpr Count kRanks = 2, kRows = kSamples * kContext / kRanks, kTurn = kRows * 2 * kWidth * kFloat;
  const Count micro_batches = kBatch / kSamples;
  const auto plain = given(planned_run(2, {"parallel.cp=2"}));
  EXPECT_EQ(plain.at("cp send"), micro_batches * kLayers * ((kRanks - 1) * 2 * kTurn + kRanks * kTurn));
  EXPECT_EQ(plain.at("cp all_reduce"), parameters() * kFloat + kNumber);
  const auto again = given(planned_run(2, {"parallel.cp=2", "model.activation_checkpointing=full"}));
  EXPECT_EQ(again.at("cp send") - plain.at("cp send"), micro_batches * kLayers * (kRanks - 1) * kTurn);
  const auto selective = given(planned_run(2, {"parallel.cp=2", "model.activation_checkpointing=selective"}));
  EXPECT_EQ(selective.at("cp send"), plain.at("cp send"));
}

// Shoeybi et al. 2019, section 3: two all-reduces forward and two backward; the ends of the model add one each.
TEST(Traffic, TensorParallelismSumsFourTimesALayer) {
  const Bytes stream = kBatch * kContext * kWidth * kFloat;
  const Bytes statistics = 3 * kBatch * kContext * kFloat;
  const auto plain = given(planned_run(2, {"parallel.tp=2"}));
  EXPECT_EQ(plain.at("tp all_reduce"), (4 * kLayers + 2) * stream + statistics + kNumber);
  const auto sequence = given(planned_run(2, {"parallel.tp=2", "parallel.sequence=true"}));
  EXPECT_EQ(sequence.at("tp reduce_scatter"), (4 * kLayers + 2) * stream);
  EXPECT_EQ(sequence.at("tp all_gather"), (6 * kLayers + 2) * stream);  // four, and two inputs once more
  const auto overlap = given(planned_run(2, {"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"}));
  EXPECT_EQ(overlap.at("tp reduce_scatter"), 2 * stream);
  EXPECT_EQ(overlap.at("tp all_gather"), (2 * kLayers + 2) * stream);
  EXPECT_EQ(overlap.at("tp send"), 8 * kLayers * stream / 2);  // what is left, in halves of which one is here already
  for (const char* choice : {"selective", "full"}) {  // once more the sum after attention; nobody reads that at a layer's end
    const auto again = given(planned_run(2, {"parallel.tp=2", std::string("model.activation_checkpointing=") + choice}));
    EXPECT_EQ(again.at("tp all_reduce") - plain.at("tp all_reduce"), kLayers * stream) << choice;
  }
}

TEST(Traffic, StagesSendTheStreamOnceAPass) {
  const Bytes stream = kBatch * kContext * kWidth * kFloat;
  EXPECT_EQ(given(planned_run(2, {"parallel.pp=2"})).at("pp send"), stream);
  const RunConfig four = planned_run(4, {"parallel.pp=4"});
  EXPECT_EQ(given(four).at("pp send"), 2 * stream);  // in the middle, both ways
  EXPECT_EQ(predict_traffic({count_step(four, 3)}).at(0).bytes, stream);
  EXPECT_EQ(given(four).at("pp.tied all_reduce"), 96 * kWidth * kFloat);
  EXPECT_EQ(given(planned_run(4, {"parallel.pp=4", "model.tied_head=false"})).count("pp.tied all_reduce"), 0u);
}

TEST(Traffic, MovesWhatARingMoves) {
  EXPECT_EQ(moved_bytes("all_reduce", 4, 1000), 1500);
  EXPECT_EQ(moved_bytes("reduce_scatter", 4, 1000), 750);
  EXPECT_EQ(moved_bytes("all_gather", 4, 1000), 750);
  EXPECT_EQ(moved_bytes("send", 4, 1000), 1000);
  EXPECT_EQ(moved_bytes("all_reduce", 1, 1000), 0);
}

TEST(PaperTraffic, IsThatOfThePapers) {
  const auto moved = [](Count ranks, const std::vector<std::string>& overrides) {
    return paper_traffic(planned_run(ranks, overrides)).at(0).moved;
  };
  const auto psi = static_cast<double>(parameters());
  EXPECT_DOUBLE_EQ(moved(4, {}), 2 * psi * 4);
  EXPECT_DOUBLE_EQ(moved(4, {"parallel.data=zero1"}), 2 * psi * 4);
  EXPECT_DOUBLE_EQ(moved(12, {"parallel.data=zero2"}), 2 * psi * 4);  // one micro-batch, as in the paper
  EXPECT_DOUBLE_EQ(moved(12, {"parallel.data=zero3"}), 3 * psi * 4);
  EXPECT_DOUBLE_EQ(moved(12, {"parallel.data=zero3", "parallel.shard_ranks=4"}), (3 + 2.0 / 4) * psi * 4);
  EXPECT_DOUBLE_EQ(moved(2, {"parallel.tp=2"}), 8.0 / 2 * kLayers * kBatch * kContext * kWidth * 4);
}

// The papers' numbers against those that were counted. Groups are rounded up to blocks, and some of ZeRO-3's stay in memory from
// forward to backward, so that the largest share of what is counted but not in the formula is that of the final norm and of six
// groups' rounding: within 2 % of so small a model.
TEST(PaperTraffic, IsWhatStrategiesSend) {
  const auto moved = [](const RunConfig& config) {
    double sum = 0.0;
    for (const Traffic& one : predict_traffic(config))
      sum += one.group.starts_with("dp") ? static_cast<double>(one.moved()) : 0.0;
    return sum;
  };
  for (const char* data : {"naive", "bucketed", "zero1", "zero2", "zero3"}) {
    for (const Count ranks : {2, 4, 12}) {
      const RunConfig config = planned_run(ranks, {std::string("parallel.data=") + data});
      const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);  // the papers leave out the factor
      const double paper = paper_traffic(config).at(0).moved * share;
      EXPECT_NEAR(moved(config) / paper, 1.0, 0.02) << data << ", " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace cohort::test
