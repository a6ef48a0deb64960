// A step is counted the same whether its blocks run every micro-batch or are taken again (nn/counted_blocks.hpp).
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <tuple>

#include "plan/step_time.hpp"
#include "planned_run.hpp"
#include "whole_step.hpp"

namespace cohort::test {
namespace {

// An entry of a tape as it is played. Of a wait: how many entries before it what it waits for has begun.
using Played = std::tuple<std::string, int, DType, bool, std::vector<Count>, double, double, std::vector<int>>;

std::vector<Played> played(const WorkTape& tape) {
  std::vector<Played> all;
  std::map<std::size_t, std::size_t> begun;  // collectives by id: where
  const auto play = [&](const WorkEntry& entry) {
    if (const auto* const work = std::get_if<OpWork>(&entry)) {
      all.emplace_back(std::string(work->op), static_cast<int>(work->kind), work->dtype, work->tf32,
                       std::vector<Count>{work->m, work->n, work->k}, work->flops, work->bytes, std::vector<int>{});
    } else if (const auto* const start = std::get_if<CollectiveStart>(&entry)) {
      begun[start->id] = all.size();
      all.emplace_back(std::string(start->operation) + " of " + start->group, -1, DType::u8, false, std::vector<Count>{}, 0.0,
                       static_cast<double>(start->bytes), *start->members);
    } else if (const auto* const wait = std::get_if<CollectiveWait>(&entry)) {
      const std::size_t before = all.size() - begun.at(wait->id);
      all.emplace_back("wait", -1, DType::u8, false, std::vector<Count>{static_cast<Count>(before)}, 0.0, 0.0,
                       std::vector<int>{});
    }
  };
  for (const WorkEntry& entry : tape.entries()) {
    if (const auto* const again = std::get_if<TakenAgain>(&entry)) {
      for (std::size_t i = again->begin; i < again->end; ++i) play(tape.entries()[i]);
    } else {
      play(entry);
    }
  }
  return all;
}

void expect_same(const CountedStep& shared, const CountedStep& whole) {
  EXPECT_EQ(shared.memory.kinds.values, whole.memory.kinds.values);
  EXPECT_EQ(shared.memory.arenas, whole.memory.arenas);
  EXPECT_EQ(shared.memory.others, whole.memory.others);
  EXPECT_EQ(shared.host, whole.host);
  EXPECT_EQ(shared.arenas.step, whole.arenas.step);
  EXPECT_EQ(shared.arenas.under_way, whole.arenas.under_way);
  EXPECT_EQ(shared.arenas.offload.lanes, whole.arenas.offload.lanes);
  EXPECT_EQ(shared.arenas.offload.host, whole.arenas.offload.host);
  EXPECT_EQ(shared.traffic.size(), whole.traffic.size());
  for (const auto& [key, totals] : whole.traffic) {
    ASSERT_TRUE(shared.traffic.contains(key)) << key.first << " " << key.second;
    const CommTrace::Totals& same = shared.traffic.at(key);
    EXPECT_EQ(std::tie(same.calls, same.elements, same.bytes, same.ranks),
              std::tie(totals.calls, totals.elements, totals.bytes, totals.ranks))
        << key.first << " " << key.second;
  }
  ASSERT_EQ(shared.runs.size(), 1u);
  ASSERT_EQ(whole.runs.size(), 1u);
  EXPECT_EQ(played(shared.runs[0].tape), played(whole.runs[0].tape));
}

// To the last bit, as the entries are added in the same order.
void expect_same_time(const RunConfig& config, const CountedStep& shared, const CountedStep& whole) {
  const MachineProfile profile = datasheet_profile("h100");
  const Replay a = replay(shared.runs[0].tape, profile, 2), b = replay(whole.runs[0].tape, profile, 2);
  EXPECT_EQ(a.split.total(), b.split.total());
  EXPECT_EQ(a.split.exposed, b.split.exposed);
  EXPECT_EQ(a.split.host_copies, b.split.host_copies);
  EXPECT_EQ(a.communication, b.communication);
  EXPECT_EQ(a.host_copies, b.host_copies);
  ASSERT_EQ(shared.runs[0].passes.size(), whole.runs[0].passes.size());
  for (std::size_t i = 0; i < whole.runs[0].passes.size(); ++i) {
    const pipeline::Event &one = shared.runs[0].passes[i], &other = whole.runs[0].passes[i];
    EXPECT_EQ(one.action, other.action);
    EXPECT_EQ(a.clock.at(static_cast<std::size_t>(one.start)), b.clock.at(static_cast<std::size_t>(other.start)));
    EXPECT_EQ(a.clock.at(static_cast<std::size_t>(one.end)), b.clock.at(static_cast<std::size_t>(other.end)));
  }
  if (config.parallel.pp == 1) {
    EXPECT_EQ(predict_step_time(config, {shared}, profile, 2).seconds, predict_step_time(config, {whole}, profile, 2).seconds);
  }
}

// Few micro-batches, so that count_step() runs all that count_whole_step() does; three with pp = 1, four in a pipeline.
RunConfig run_of(std::vector<std::string> overrides, bool pipelined) {
  overrides.emplace_back(pipelined ? "train.global_batch=32" : "train.global_batch=24");
  for (const char* more : {"device.kind=cuda", "precision.policy=bf16"}) overrides.emplace_back(more);
  return planned_run(4, overrides);
}

TEST(CountedBlocks, AreCountedAsIfAllOfThemRan) {
  for (const char* data : {"naive", "bucketed", "zero1", "zero2", "zero3"}) {
    for (const char* layout : {"parallel.tp=1", "parallel.tp=2", "parallel.cp=2"}) {
      for (const char* keep : {"none", "selective", "full"}) {
        const std::string kept = std::string("model.activation_checkpointing=") + keep;
        SCOPED_TRACE(std::string(data) + " " + layout + " " + kept);
        const bool divided = std::string(layout) != "parallel.tp=1";
        RunConfig config = run_of({std::string("parallel.data=") + data, layout, kept, "model.dropout=0.1",
                                   divided ? "train.micro_batch=4" : "train.micro_batch=2"},
                                  false);
        ASSERT_EQ(config.train.accumulation, 3);
        const CountedStep shared = count_step(config, 0), whole = count_whole_step(config, 0);
        expect_same(shared, whole);
        expect_same_time(config, shared, whole);
        EXPECT_LT(shared.runs[0].tape.entries().size(), whole.runs[0].tape.entries().size()) << "blocks are taken again";
      }
    }
  }
}

// Copies to the host and turns around the ring are told, too.
TEST(CountedBlocks, WithOffloadAndOverlapAreCountedAsIfAllOfThemRan) {
  for (const char* more : {"model.activation_offload=true", "parallel.tensor_overlap=true"}) {
    for (const char* keep : {"none", "selective", "full"}) {
      for (const bool pipelined : {false, true}) {
        std::vector<std::string> overrides{more, "parallel.tp=2", "parallel.sequence=true", "train.micro_batch=4",
                                           std::string("model.activation_checkpointing=") + keep};
        if (pipelined) overrides.insert(overrides.end(), {"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=2"});
        SCOPED_TRACE(fmt::format("{} {} {}", more, keep, pipelined ? "interleaved" : "alone"));
        const RunConfig config = run_of(overrides, pipelined);
        const CountedStep shared = count_step(config, 0), whole = count_whole_step(config, 0);
        expect_same(shared, whole);
        expect_same_time(config, shared, whole);
        EXPECT_LT(shared.runs[0].tape.entries().size(), whole.runs[0].tape.entries().size()) << "blocks are taken again";
      }
    }
  }
}

// Blocks of which each does what it does: none has another's passes.
TEST(CountedBlocks, OfWhichSomeRecomputeAreCountedAsIfAllOfThemRan) {
  for (const char* offload : {"model.activation_offload=false", "model.activation_offload=true"}) {
    for (const bool pipelined : {false, true}) {
      std::vector<std::string> overrides{offload, "model.activation_checkpointing=full", "model.checkpointed_layers=1",
                                         "parallel.tp=2", pipelined ? "train.micro_batch=8" : "train.micro_batch=4"};
      if (pipelined) overrides.emplace_back("parallel.pp=2");
      SCOPED_TRACE(fmt::format("{} {}", offload, pipelined ? "pipeline" : "alone"));
      const RunConfig config = run_of(overrides, pipelined);
      const CountedStep shared = count_step(config, 0), whole = count_whole_step(config, 0);
      expect_same(shared, whole);
      expect_same_time(config, shared, whole);
    }
  }
}

TEST(CountedBlocks, OfAPipelineAreCountedAsIfAllOfThemRan) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved"}) {
    for (const char* keep : {"none", "selective", "full"}) {
      std::vector<std::string> overrides{"parallel.pp=2", std::string("parallel.schedule=") + schedule, "parallel.data=zero1",
                                         std::string("model.activation_checkpointing=") + keep};
      if (std::string(schedule) == "interleaved") overrides.emplace_back("parallel.chunks=2");
      SCOPED_TRACE(overrides[1] + " " + overrides[3]);
      const RunConfig config = run_of(overrides, true);
      ASSERT_EQ(config.train.accumulation, 4);
      for (const int stage : {0, 1}) {
        const CountedStep shared = count_step(config, stage), whole = count_whole_step(config, stage);
        expect_same(shared, whole);
        expect_same_time(config, shared, whole);
        EXPECT_LT(shared.runs[0].tape.entries().size(), whole.runs[0].tape.entries().size()) << "blocks are taken again";
      }
    }
  }
}

// Tables that a block makes when it first runs belong to each.
TEST(CountedBlocks, HaveTheirOwnTables) {
  const RunConfig config = run_of({"model.kind=llama", "parallel.data=zero3", "train.micro_batch=2"}, false);
  const CountedStep shared = count_step(config, 0), whole = count_whole_step(config, 0);
  EXPECT_FALSE(whole.memory.others.empty());
  expect_same(shared, whole);
}

}  // namespace
}  // namespace cohort::test
