// The time of steps from their tapes: written by hand, and counted of real steps.
#include "plan/step_time.hpp"

#include <gtest/gtest.h>

#include <set>

#include "parallel/pipeline/pipeline_schedule.hpp"
#include "plan/profile.hpp"
#include "plan/replay.hpp"
#include "planned_run.hpp"
#include "support/expect_error.hpp"
#include "whole_step.hpp"

namespace cohort::test {
namespace {

const std::shared_ptr<const std::vector<int>> kTwo = std::make_shared<std::vector<int>>(std::vector<int>{0, 1});

// An op of `bytes` bytes takes as many seconds; so does an all-gather of twice as many over two ranks.
MachineProfile seconds_as_bytes(double hidden) {
  MachineProfile profile;
  profile.rates = {.sixteen_bits = 1.0,
                   .tf32 = 1.0,
                   .fp32 = 1.0,
                   .attention_forward = 1.0,
                   .attention_backward = 1.0,
                   .bytes_per_second = 1.0};
  profile.node = {0.0, 1.0};
  profile.hidden = hidden;
  return profile;
}

OpWork op(double seconds) { return {.op = "add", .bytes = seconds}; }

std::size_t start(WorkTape& tape, const std::string& group, Bytes bytes) {
  float value = 0.0f;
  return tape.communicates({"all_gather", group, kTwo, bytes, &value, &value});
}

TEST(Replay, HidesCollectivesBehindWork) {
  WorkTape tape;
  tape.work(op(1.0));
  const std::size_t id = start(tape, "dp.shards", 6);
  tape.work(op(2.0));
  tape.waits(id);
  tape.work(op(1.0));
  const Replay all = replay(tape, seconds_as_bytes(1.0), 2);
  EXPECT_DOUBLE_EQ(all.split.total(), 5.0);
  EXPECT_DOUBLE_EQ(all.split.exposed.at("dp"), 1.0);
  EXPECT_DOUBLE_EQ(all.communication, 3.0);
  EXPECT_EQ(all.clock, (std::vector<double>{0.0, 1.0, 1.0, 3.0, 4.0, 5.0}));
  EXPECT_DOUBLE_EQ(replay(tape, seconds_as_bytes(0.5), 2).split.total(), 6.0) << "half of what runs beside work slows it down";
  EXPECT_DOUBLE_EQ(replay(tape, seconds_as_bytes(0.0), 2).split.total(), 7.0) << "as if one after the other";
}

TEST(Replay, SendsOneCollectiveAfterTheOther) {
  WorkTape tape;
  const std::size_t first = start(tape, "dp", 4);
  const std::size_t second = start(tape, "tp", 2);
  tape.waits(second);
  tape.waits(first);
  const Replay all = replay(tape, seconds_as_bytes(1.0), 2);
  EXPECT_DOUBLE_EQ(all.split.exposed.at("tp"), 3.0) << "it waits for the one before";
  EXPECT_DOUBLE_EQ(all.split.exposed.at("dp"), 0.0);
}

StepTime planned(const RunConfig& config, const MachineProfile& profile, int ranks_per_node = 8) {
  return predict_step_time(config, count_stages(config), profile, ranks_per_node);
}

RunConfig gpu_run(Count ranks, std::vector<std::string> overrides = {}) {
  for (const char* more : {"device.kind=cuda", "precision.policy=bf16", "model.width=1024", "model.context=1024"})
    overrides.emplace_back(more);
  return planned_run(ranks, overrides);
}

// As for traffic: what is repeated is played once, and taken as often as it is due.
TEST(StepTime, OfManyMicroBatchesIsThatOfThreeExtended) {
  const MachineProfile profile = datasheet_profile("h100");
  for (const char* data : {"naive", "hooks", "bucketed", "zero1", "zero2", "zero3"}) {
    for (const char* more : {"parallel.tp=1", "parallel.tp=2", "parallel.cp=2"}) {
      const RunConfig config = gpu_run(2, {std::string("parallel.data=") + data, more});
      ASSERT_GT(config.train.accumulation, 3);
      const double some = planned(config, profile).seconds;
      const double all = predict_step_time(config, {count_whole_step(config, 0)}, profile, 8).seconds;
      EXPECT_NEAR(some, all, 0.002 * all) << data << " " << more;
    }
  }
}

TEST(StepTime, IsTheSumOfItsParts) {
  const MachineProfile profile = datasheet_profile("a100");
  for (const char* more : {"parallel.data=zero3", "parallel.tp=2", "parallel.pp=2", "parallel.cp=2"}) {
    const StepTime time = planned(gpu_run(4, {more}), profile);
    EXPECT_NEAR(time.split.total(), time.seconds, 1e-9 * time.seconds) << more;
    for (const double part : {time.split.products, time.split.attention, time.split.pointwise, time.split.optimizer})
      EXPECT_GT(part, 0.0) << more;
    EXPECT_GE(time.split.bubble, 0.0) << more;
  }
}

// Li et al. 2020: buckets are reduced while backward goes on. The strategy's own code says when each starts.
TEST(StepTime, KnowsWhatStrategiesOverlap) {
  const MachineProfile profile = datasheet_profile("h100");
  const auto exposed = [&](const std::vector<std::string>& overrides, int ranks_per_node) {
    return planned(gpu_run(4, overrides), profile, ranks_per_node).split.exposed.at("dp");
  };
  const double naive = exposed({"parallel.data=naive"}, 1);
  const double bucketed = exposed({"parallel.data=bucketed", "parallel.bucket_mib=4"}, 1);
  EXPECT_LT(bucketed, 0.8 * naive);
  EXPECT_GT(bucketed, 0.3 * naive) << "the last bucket has nothing to hide behind, and a slow network more";
  EXPECT_LT(exposed({"parallel.data=bucketed"}, 4), exposed({"parallel.data=bucketed"}, 1)) << "links in a node are faster";
  const StepTime zero3 = planned(gpu_run(4, {"parallel.data=zero3"}), profile, 4);
  EXPECT_LT(zero3.split.communicating(), zero3.communication) << "the next block's weights come while one computes";
}

// Copies to the host go one behind the other beside work, and beside collectives.
TEST(Replay, HidesCopiesToTheHostBehindWork) {
  const auto alone = std::make_shared<std::vector<int>>(1, 0);
  WorkTape tape;
  const auto copy = [&](Bytes bytes) { return tape.communicates({"offload", "host", alone, bytes, nullptr, nullptr}); };
  const std::size_t first = copy(8), second = copy(4), collective = start(tape, "dp", 6);
  tape.work(op(2.0));
  tape.waits(collective);
  tape.waits(first);
  tape.work(op(1.0));
  tape.waits(second);
  MachineProfile profile = seconds_as_bytes(1.0);
  profile.host_bytes_per_second = 2.0;
  const Replay all = replay(tape, profile, 2);
  EXPECT_DOUBLE_EQ(all.split.total(), 6.0);  // the copies take 4 s and 2 s
  EXPECT_DOUBLE_EQ(all.host_copies, 6.0);
  EXPECT_DOUBLE_EQ(all.split.host_copies, 2.0);
  EXPECT_DOUBLE_EQ(all.communication, 3.0);
  EXPECT_DOUBLE_EQ(all.split.communicating(), 1.0);
  EXPECT_DOUBLE_EQ(all.split.plus(all.split, 2.0).total(), 3.0 * 6.0);
  profile.device = DeviceKind::cpu;  // where who copies computes nothing meanwhile
  EXPECT_DOUBLE_EQ(replay(tape, profile, 2).split.total(), 10.0);
}

// A step is as long as the longer of work and copies, and the first and last blocks' of these.
TEST(StepTime, OfOffloadedActivationsIsThatOfTheSlowerOfWorkAndCopies) {
  const std::vector<std::string> full{"model.activation_checkpointing=full", "model.layers=12"};
  std::vector<std::string> offloaded = full;
  offloaded.emplace_back("model.activation_offload=true");
  const auto seconds = [](const std::vector<std::string>& overrides, double host) {
    MachineProfile profile = datasheet_profile("h100");
    profile.host_bytes_per_second = host;
    const RunConfig config = gpu_run(1, overrides);
    return predict_step_time(config, count_stages(config), profile, 1).seconds;
  };
  const double without = seconds(full, 50e9);
  EXPECT_GE(seconds(offloaded, 50e9), without);
  EXPECT_NEAR(seconds(offloaded, 1e15), without, 1e-3 * without);
  // Each micro-batch copies 12 inputs to the host and 9 back, each of 4 samples of 1,024 tokens, of width 1,024, in 16 bits. At a
  // megabyte per second that is all that the step does: its work is less than a hundredth.
  const RunConfig config = gpu_run(1, offloaded);
  const double slow = 1e6;
  const auto bytes = static_cast<double>(config.train.accumulation * (12 + 9) * 2 * 4 * 1024 * 1024);
  EXPECT_NEAR(seconds(offloaded, slow), bytes / slow, 0.01 * bytes / slow);
  EXPECT_ERROR(seconds(offloaded, 0.0), ExitCode::config, "no speed of copies to the host");
}

// What overlaps is awaited in the end, though strategies that test a request on the way might take it for done: no step is
// shorter than its links are busy.
TEST(StepTime, WaitsForWhatItHasStarted) {
  MachineProfile profile = datasheet_profile("h100");
  profile.network.bytes_per_second /= 100.0;
  for (const std::string data : {"naive", "hooks", "bucketed", "zero1", "zero2", "zero3"}) {
    for (const std::string more : {"parallel.tp=1", "parallel.tp=2", "parallel.cp=2", "parallel.pp=2"}) {
      if (more == "parallel.pp=2" && (data == "zero2" || data == "zero3")) continue;  // which do not go together
      SCOPED_TRACE(data + " " + more);
      const RunConfig config = gpu_run(4, {"parallel.data=" + data, more});
      std::set<std::size_t> under_way;
      const CountedStep counted = count_whole_step(config, 0);
      for (const WorkEntry& entry : counted.runs.back().tape.entries()) {
        if (const auto* const start = std::get_if<CollectiveStart>(&entry)) under_way.insert(start->id);
        const auto* const wait = std::get_if<CollectiveWait>(&entry);
        EXPECT_TRUE(wait == nullptr || under_way.erase(wait->id) == 1) << "a wait for what is not under way";
      }
      EXPECT_TRUE(under_way.empty()) << under_way.size() << " collectives that nobody waits for";
      if (config.parallel.pp > 1) continue;  // which sends beside them, on links of its own
      const StepTime time = predict_step_time(config, {counted}, profile, 1);
      EXPECT_GE(time.seconds, time.communication);
    }
  }
}

// What comes before the first pass, such as clearing gradients, is no part of it.
TEST(StepTime, KnowsWhereThePassesOfAPipelineBegin) {
  const CountedStep counted = count_whole_step(gpu_run(2, {"parallel.pp=2", "parallel.data=zero1"}), 0);
  const TapedStep& run = counted.runs.back();
  EXPECT_GT(run.passes.front().start, 0.0);
  for (const pipeline::Event& pass : run.passes) {
    const auto* const first = std::get_if<OpWork>(&run.tape.entries().at(static_cast<std::size_t>(pass.start)));
    ASSERT_NE(first, nullptr);
    EXPECT_TRUE(pass.action.pass == pipeline::Pass::backward || first->op == "embedding_forward") << first->op;
  }
}

// With equal stages and free messages the schedule's formula holds.
TEST(StepTime, OfAPipelineHasItsBubble) {
  MachineProfile profile = datasheet_profile("h100");
  profile.node = {0.0, 1e18};
  const RunConfig config = gpu_run(4, {"parallel.pp=4", "model.layers=8", "model.vocabulary=96"});
  const StepTime time = planned(config, profile);
  const double formula = 3.0 / (static_cast<double>(config.train.accumulation) + 3.0);
  EXPECT_NEAR(time.bubble(), formula, 0.06);
  const RunConfig interleaved =
      gpu_run(4, {"parallel.pp=4", "model.layers=8", "parallel.schedule=interleaved", "parallel.chunks=2"});
  EXPECT_LT(planned(interleaved, profile).bubble(), time.bubble());
}

// Products in 8 bits have twice the rate; what rounds their operands moves memory, and attention and the rest are as in bf16.
TEST(StepTime, OfFp8IsShorterByItsProductsAlone) {
  const MachineProfile profile = datasheet_profile("h100");
  RunConfig config = gpu_run(1, {"model.layers=4", "model.width=2048", "model.heads=16", "train.micro_batch=8"});
  const StepTime bf16 = planned(config, profile);
  config.precision.policy = "fp8";
  const StepTime fp8 = planned(config, profile);
  EXPECT_LT(fp8.split.products, 0.65 * bf16.split.products);
  EXPECT_GT(fp8.split.products, 0.45 * bf16.split.products) << "the vocabulary's stay, and none is more than twice as fast";
  EXPECT_GT(fp8.split.pointwise, 1.1 * bf16.split.pointwise);
  EXPECT_DOUBLE_EQ(fp8.split.attention, bf16.split.attention);
  EXPECT_DOUBLE_EQ(fp8.split.optimizer, bf16.split.optimizer);
  EXPECT_ERROR(planned(config, datasheet_profile("a100")), ExitCode::config, "a100 has no products in 8 bits");
}

TEST(StepTime, OfMoreWorkIsLonger) {
  const MachineProfile profile = datasheet_profile("h100");
  const auto seconds = [&](const std::vector<std::string>& overrides) { return planned(gpu_run(1, overrides), profile).seconds; };
  const double one = seconds({});
  EXPECT_NEAR(seconds({"train.global_batch=96"}) / one, 2.0, 0.1);
  EXPECT_GT(seconds({"model.activation_checkpointing=full"}), 1.1 * one);
  EXPECT_LT(seconds({"model.activation_checkpointing=full"}), 1.4 * one);
}

// Selective recomputation runs a forward of attention less than full does; of long samples that is most of forward.
TEST(StepTime, OfSelectiveRecomputationHasNoMoreAttention) {
  const MachineProfile profile = datasheet_profile("h100");
  const std::vector<std::string> of_long_samples{"model.layers=4", "model.width=1024", "model.heads=16", "model.context=65536",
                                                 "train.micro_batch=1"};
  const auto time = [&](const char* choice) {
    std::vector<std::string> overrides = of_long_samples;
    overrides.push_back(std::string("model.activation_checkpointing=") + choice);
    return planned(gpu_run(1, overrides), profile);
  };
  const StepTime none = time("none"), selective = time("selective"), full = time("full");
  EXPECT_DOUBLE_EQ(selective.split.attention, none.split.attention);
  EXPECT_GT(full.split.attention, 1.2 * none.split.attention);
  EXPECT_DOUBLE_EQ(selective.split.products, full.split.products);
  const double saved = full.split.attention - none.split.attention;
  EXPECT_NEAR(full.seconds - selective.seconds, saved, 0.01 * saved);
}

}  // namespace
}  // namespace cohort::test
