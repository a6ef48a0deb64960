// Predictions against what steps really take and send, and faults of predictions, which must not pass.
#include "plan/measure.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/random.hpp"
#include "comm/mpi_communicator.hpp"
#include "data/prepare.hpp"
#include "plan/compare.hpp"
#include "plan/part.hpp"
#include "planned_run.hpp"
#include "support/test_device.hpp"
#include "train/precision.hpp"
#include "train/shared_folder.hpp"
#include "train/step_batches.hpp"
#include "train/train_step.hpp"

namespace cohort::test {
namespace {

class Measured : public ::testing::Test {
 protected:
  Measured() {
    if (world_->rank() == 0) write_tokens();
    world_->barrier();
  }

  // 64 samples of 64 random letters, and a tenth more for validation.
  void write_tokens() const {
    const std::string letters = "abcdefghijklmnopqrst ";
    const CounterRandom random(1, RandomPurpose::test);
    std::string text = letters;
    for (std::uint64_t i = 0; text.size() < 72 * 64; ++i) text += letters[random.u32(i) % letters.size()];
    std::ofstream(folder_ / "text") << text;
    prepare_tokens({.inputs = {(folder_ / "text").string()}, .output = (folder_ / "tokens.h5").string(), .tokenizer = "char"});
  }

  RunConfig run(std::vector<std::string> overrides) const {
    overrides.push_back("data.tokens=" + (folder_ / "tokens.h5").string());
    overrides.emplace_back(test_device() == DeviceKind::gpu ? "device.kind=cuda" : "device.kind=cpu");
    if (ranks_share_devices(world_->size())) overrides.emplace_back("device.share=true");
    return planned_run(world_->size(), overrides);
  }
  Measurement measured(RunConfig config) const {
    const RunData data = open_data(*world_, config, DataUse::training);
    return measure(config, data, *world_, 2);
  }
  StepArenas arenas_of_a_step(RunConfig config, const Mesh& mesh) const {
    const RunData data = open_data(*world_, config, DataUse::training);
    TrainStep train_step(config, mesh);
    const Sampler sampler = sampler_of(config, *data.dataset);
    StepBatches batches(*data.dataset, sampler, config.train, BatchShare::of(mesh, nullptr), train_step.device());
    batches.load(0);
    StepTimers timers;
    train_step.run({0, batches.inputs(), batches.valid_targets(), batches.valid_targets()}, timers);
    return train_step.held_arenas();
  }
  void expect_as_predicted(const std::vector<std::string>& overrides) const {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const RunConfig config = run(overrides);
    const Measurement found = measured(config);
    const auto expect = [](const Comparison& line) {
      EXPECT_TRUE(line.within()) << line.what << ": predicted " << line.predicted << ", measured " << line.measured;
    };
    const std::vector<CountedStep> stages = count_stages(config);
    for (const Comparison& line : compare_memory(predict_memory(stages), found)) expect(line);
    for (const Comparison& line : compare_traffic(predict_traffic(stages), found)) expect(line);
    expect(compare_others(predict_memory(stages), found));
  }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
  SharedFolder folder_{*world_};
};

TEST_F(Measured, DataParallelism) {
  for (const char* data : {"naive", "hooks", "bucketed", "zero1", "zero2", "zero3"})
    expect_as_predicted({fmt::format("parallel.data={}", data)});
  expect_as_predicted({"parallel.data=zero3", "parallel.wrap=layer"});
  expect_as_predicted({"parallel.data=zero2", "model.activation_checkpointing=selective"});
  expect_as_predicted({"parallel.data=zero2", "model.activation_checkpointing=full", "model.activation_offload=true"});
  expect_as_predicted({"parallel.data=zero3", "parallel.wrap=model"});
  expect_as_predicted({"parallel.data=bucketed", "precision.policy=bf16", "precision.reduction=compute"});
  expect_as_predicted({"parallel.data=zero2", "model.kind=llama", "model.kv_heads=2", "model.tied_head=false"});
  expect_as_predicted(
      {"parallel.data=zero2", "parallel.offload=optimizer", "parallel.offload_directory=" + (folder_ / "moments").string()});
  if (world_->size() == 1) expect_as_predicted({"parallel.data=manual"});
  if (world_->size() == 4) expect_as_predicted({"parallel.data=zero3", "parallel.shard_ranks=2", "precision.policy=bf16"});
}

// Slots, and the buffers of matrices that are updated whole.
TEST_F(Measured, OptimizersOfWholeMatrices) {
  const std::string muon = "optimizer.kind=muon";
  for (const char* data : {"bucketed", "zero1", "zero2", "zero3"})
    expect_as_predicted({fmt::format("parallel.data={}", data), muon});
  expect_as_predicted({"parallel.data=zero3", "parallel.wrap=layer", "model.kind=llama", "model.kv_heads=2", muon});
  expect_as_predicted(
      {"optimizer.groups=[{match=[\"*.attention.*\"], kind=\"adamw\"}, {match=[\"*.bias\"], weight_decay=0.1}]", muon});
  if (world_->size() % 2 != 0) return;
  expect_as_predicted({"parallel.tp=2", "parallel.data=bucketed", muon});
  expect_as_predicted({"parallel.tp=2", "parallel.data=zero2", "precision.policy=bf16", muon});
  expect_as_predicted({"parallel.cp=2", "parallel.data=zero1", muon});
  expect_as_predicted({"parallel.pp=2", "parallel.data=zero1", muon});
}

TEST_F(Measured, ContextParallelism) {
  if (world_->size() % 2 != 0) GTEST_SKIP() << "an even number of ranks";
  expect_as_predicted({"parallel.cp=2"});
  expect_as_predicted({"parallel.cp=2", "parallel.data=zero3", "model.activation_checkpointing=full"});
  expect_as_predicted({"parallel.cp=2", "parallel.data=zero3", "model.activation_checkpointing=selective"});
  expect_as_predicted({"parallel.cp=2", "model.kind=llama", "model.kv_heads=2", "precision.policy=bf16"});
  if (world_->size() == 4) expect_as_predicted({"parallel.cp=2", "parallel.tp=2", "parallel.sequence=true"});
}

TEST_F(Measured, TensorParallelism) {
  if (world_->size() % 2 != 0) GTEST_SKIP() << "an even number of ranks";
  expect_as_predicted({"parallel.tp=2"});
  expect_as_predicted({"parallel.tp=2", "parallel.sequence=true", "parallel.data=zero3"});
  expect_as_predicted({"parallel.tp=2", "model.activation_checkpointing=full", "model.dropout=0.1"});
  expect_as_predicted({"parallel.tp=2", "parallel.sequence=true", "model.activation_checkpointing=selective"});
  expect_as_predicted({"parallel.tp=2", "model.kind=qwen3", "model.kv_heads=2", "model.head_size=24", "precision.policy=bf16"});
  expect_as_predicted({"parallel.tp=2", "device.kernels=portable"});
  expect_as_predicted({"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"});
  if (world_->size() == 4)
    expect_as_predicted({"parallel.tp=4", "parallel.sequence=true", "parallel.tensor_overlap=true", "model.kind=llama",
                         "model.kv_heads=2", "model.activation_checkpointing=full"});
  if (world_->size() == 4)
    expect_as_predicted({"parallel.tp=4", "parallel.sequence=true", "model.kind=llama", "model.kv_heads=2"});
}

TEST_F(Measured, Pipelines) {
  if (world_->size() == 1 || world_->size() == 3) GTEST_SKIP() << "two ranks or four";
  expect_as_predicted({"parallel.pp=2"});
  expect_as_predicted({"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=2", "parallel.data=zero1"});
  expect_as_predicted({"parallel.pp=2", "model.kind=llama", "model.tied_head=false", "model.activation_checkpointing=full"});
  expect_as_predicted({"parallel.pp=2", "model.kind=qwen3", "model.kv_heads=2", "model.activation_checkpointing=selective"});
  expect_as_predicted({"parallel.pp=2", "model.activation_checkpointing=selective", "model.activation_offload=true"});
  if (world_->size() == 2) return;
  expect_as_predicted({"parallel.pp=4", "parallel.schedule=gpipe", "train.micro_batch=12"});
  // Stages in the middle that are alike but for what they recompute.
  const std::string full = "model.activation_checkpointing=full";
  expect_as_predicted({"parallel.pp=4", "model.layers=8", full, "model.checkpointed_layers=4"});
  expect_as_predicted({"parallel.pp=4", "model.layers=8", full, "model.checkpointed_layers=6", "model.activation_offload=true"});
  expect_as_predicted({"parallel.pp=2", "parallel.cp=2", "parallel.data=zero1", "precision.policy=fp16"});
  expect_as_predicted({"parallel.pp=2", "parallel.tp=2", "parallel.sequence=true"});
}

// With one layer in a chunk and with four, of which three lanes have room for three, and as many micro-batches under way as the
// schedule says.
TEST_F(Measured, LanesOfOffloadedActivations) {
  for (const char* keep : {"none", "selective", "full"}) {
    for (const Count layers : {1, 4}) {
      for (const Count chunks : {1, 2}) {
        if (chunks > 1 && world_->size() == 1) continue;
        std::vector<std::string> overrides{
            "model.activation_offload=true", fmt::format("model.activation_checkpointing={}", keep),
            fmt::format("parallel.pp={}", world_->size()), fmt::format("model.layers={}", layers * chunks * world_->size())};
        if (chunks > 1) overrides.insert(overrides.end(), {"parallel.schedule=interleaved", "parallel.chunks=2"});
        SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
        const RunConfig config = run(overrides);
        const Mesh mesh(*world_, mesh_shape_of(config.parallel), device_of(config), config.device.share);
        const StepArenas counted = count_step(config, mesh.index(Axis::pp)).arenas, held = arenas_of_a_step(config, mesh);
        EXPECT_EQ(held.offload.lanes, counted.offload.lanes);
        EXPECT_EQ(held.offload.host, counted.offload.host);
        EXPECT_EQ(held.under_way, counted.under_way);
        const auto used =
            std::count_if(held.offload.lanes.begin(), held.offload.lanes.end(), [](Bytes lane) { return lane > 0; });
        const Count most = PlannedPart(config, mesh.index(Axis::pp)).layers_of_largest_chunk();
        const bool message = std::string(keep) == "full" && most == 1 && mesh.index(Axis::pp) > 0;  // is all that a block keeps
        EXPECT_EQ(used, message ? 0 : std::min<Count>(most, 3));
      }
    }
  }
}

// The recorded step: every pass of every micro-batch, on all stages.
TEST_F(Measured, PipelinesHaveATimeline) {
  if (world_->size() != 2) GTEST_SKIP() << "two ranks";
  const Measurement found = measured(run({"parallel.pp=2"}));
  EXPECT_EQ(found.events.size(), 2u * 2u * 12u);
  const double bubble = pipeline::occupation_of(found.events, 2).bubble();
  EXPECT_GT(bubble, 0.0);
  EXPECT_LT(bubble, 1.0);
}

class Faults : public Measured {
 protected:
  bool passes(const PredictedMemory& memory) const {
    bool equal = true;
    for (const Comparison& line : compare_memory(memory, found_)) equal = equal && line.within();
    return equal;
  }
  bool passes(const std::vector<Traffic>& traffic) const {
    bool equal = true;
    for (const Comparison& line : compare_traffic(traffic, found_)) equal = equal && line.within();
    return equal;
  }

  const RunConfig config_ = run({"parallel.data=zero2"});
  const Measurement found_ = measured(config_);
  const PredictedMemory memory_ = predict_memory(config_);
  const std::vector<Traffic> traffic_ = predict_traffic(config_);
};

TEST_F(Faults, OfMemoryAreCaught) {
  EXPECT_TRUE(passes(memory_));
  for (const MemoryKind kind : kMemoryKinds) {
    SCOPED_TRACE(std::string(name_of(kind)));
    PredictedMemory twice = memory_;
    twice.kinds[kind] *= 2;
    EXPECT_FALSE(passes(twice));
    PredictedMemory missing = memory_;
    missing.kinds[kind] = 0;
    EXPECT_FALSE(passes(missing));
    // A part that is off by a tenth, which shows even if the total does not (and is far more than the allowance).
    PredictedMemory off = memory_;
    off.kinds[kind] = off.kinds[kind] * 11 / 10;
    ASSERT_GT(off.kinds[kind] - memory_.kinds[kind], 2 * kMemoryAllowance);
    EXPECT_FALSE(passes(off));
  }
}

TEST_F(Faults, OfTrafficAreCaught) {
  if (world_->size() == 1) GTEST_SKIP() << "one rank sends nothing";
  EXPECT_TRUE(passes(traffic_));
  ASSERT_EQ(traffic_.size(), 2u);
  for (std::size_t i = 0; i < traffic_.size(); ++i) {
    SCOPED_TRACE(traffic_[i].operation);
    std::vector<Traffic> own_block_left_out = traffic_;  // the factor (N-1)/N
    own_block_left_out[i].bytes = own_block_left_out[i].bytes * (world_->size() - 1) / world_->size();
    EXPECT_FALSE(passes(own_block_left_out));
    std::vector<Traffic> missing = traffic_;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(passes(missing));
    std::vector<Traffic> elsewhere = traffic_;
    elsewhere[i].group = "tp";
    EXPECT_FALSE(passes(elsewhere));
  }
  std::vector<Traffic> once = traffic_;  // not in each micro-batch
  if (config_.train.accumulation > 1) {
    once[0].bytes /= config_.train.accumulation;
    EXPECT_FALSE(passes(once));
  }
}

TEST_F(Faults, UnknownTensorsAreCaught) {
  Measurement found = found_;
  EXPECT_TRUE(compare_others(memory_, found).within());
  found.others["somebody's cache"] = 2 * kMiB;
  EXPECT_FALSE(compare_others(memory_, found).within());
}

}  // namespace
}  // namespace cohort::test
