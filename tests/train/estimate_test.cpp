// What is promised before a run, against what the run then takes.
#include "train/estimate.hpp"

#include <gtest/gtest.h>

#include "comm/self_communicator.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "parallel/zero/sharded.hpp"
#include "support/temporary_folder.hpp"
#include "train/data_setup.hpp"
#include "train/step_batches.hpp"
#include "train/train_step.hpp"

namespace cohort::test {
namespace {

RunConfig make_config(const std::string& kind, const std::vector<std::string>& overrides = {}, Count ranks = 1) {
  const std::string text =
      kind == "mlp" ? "[model]\nkind = 'mlp'\nlayers = 3\nwidth = 32\ninputs = 8\n[data]\nkind = 'two_moons'\nsamples = 1000\n"
                    : "[model]\nkind = '" + kind +
                          "'\nlayers = 3\nwidth = 64\nheads = 4\ncontext = 32\nvocabulary = 100\n"
                          "[data]\ntokens = 'none.h5'\n";
  RunConfig config = parse_run_file(text, "test.toml", overrides);
  validate(config, ranks);
  return config;
}

// Beside its moments the optimizer has a list of the ranges that decay, 24 bytes for each that differs from the one before.
::testing::AssertionResult is_optimizer_of(Bytes bytes, Bytes moments) {
  if (bytes >= moments && bytes <= moments + 4 * kKiB) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << bytes << " bytes, of which " << moments << " were to be moments";
}

class Estimates : public ::testing::TestWithParam<std::pair<const char*, std::vector<std::string>>> {
 protected:
  const char* kind() const { return GetParam().first; }
  RunConfig config() const { return make_config(kind(), GetParam().second); }
};

// One step of one micro-batch of made-up data.
void run_one_step(TrainStep& train_step, const RunConfig& run) {
  const auto samples = static_cast<std::size_t>(run.train.micro_batch);
  const std::size_t length = run.model.kind == "mlp" ? 1 : static_cast<std::size_t>(run.model.context);
  const std::vector<std::int32_t> inputs(samples * length, 1), targets(samples * length, 1);
  const std::vector<float> features(samples * static_cast<std::size_t>(run.model.inputs), 0.5f);
  std::vector<Count> slots(samples);
  const ModelInput input{run.train.micro_batch, inputs, targets, features, slots};
  StepTimers timers;
  const auto valid_targets = static_cast<Count>(targets.size());
  train_step.run({0, std::span(&input, 1), valid_targets, valid_targets}, timers);
}

// To the byte: what is counted is the step's own code. The arena is one piece, as it is on a GPU.
TEST_P(Estimates, AreWhatAStepTakes) {
  const RunConfig run = config();
  const auto self = make_self_communicator("world");
  const Mesh mesh(*self, MeshShape(1, 1, 1, 1));
  const CountedStep counted = count_step(run, 0);
  TrainStep train_step(run, mesh);
  if (train_step.device() == DeviceKind::cpu) train_step.reserve(counted.arenas);
  run_one_step(train_step, run);

  const MemoryEstimate memory = estimate_memory(counted);
  const Count elements = train_step.model().parameters().elements();
  const Bytes copy = run.precision.policy == "fp32" ? 0 : 2 * elements;
  const Count replicas = run.parallel.data == "manual" ? 2 : 1;
  EXPECT_EQ(memory.parameters, replicas * (4 * elements + copy));
  EXPECT_EQ(memory.gradients, replicas * 4 * elements);
  EXPECT_TRUE(is_optimizer_of(memory.optimizer, 8 * elements));
  EXPECT_EQ(memory.activations, train_step.activations().peak_bytes());
  EXPECT_EQ(memory.total(), memory.parameters + memory.gradients + memory.optimizer + memory.activations);
}

INSTANTIATE_TEST_SUITE_P(
    All, Estimates,
    ::testing::Values(std::pair{"gpt2", std::vector<std::string>{}},
                      std::pair{"gpt2", std::vector<std::string>{"model.dropout=0.1"}},
                      std::pair{"gpt2", std::vector<std::string>{"model.activation_checkpointing=full"}},
                      std::pair{"gpt2", std::vector<std::string>{"model.activation_checkpointing=selective"}},
                      std::pair{"gpt2",
                                std::vector<std::string>{"model.activation_checkpointing=full", "model.checkpointed_layers=1"}},
                      std::pair{"gpt2", std::vector<std::string>{"parallel.data=manual"}},
                      std::pair{"llama", std::vector<std::string>{"model.kv_heads=2"}},
                      std::pair{"llama", std::vector<std::string>{"model.activation_checkpointing=full"}},
                      std::pair{"llama", std::vector<std::string>{"model.activation_checkpointing=selective"}},
                      std::pair{"qwen3", std::vector<std::string>{"model.kv_heads=2", "model.head_size=24"}},
                      std::pair{"qwen3", std::vector<std::string>{"model.activation_checkpointing=full"}},
                      std::pair{"qwen3", std::vector<std::string>{"model.activation_checkpointing=selective"}},
                      std::pair{"gpt2", std::vector<std::string>{"precision.policy=bf16"}},
                      std::pair{"gpt2", std::vector<std::string>{"precision.policy=bf16", "parallel.data=manual"}},
                      std::pair{"llama", std::vector<std::string>{"precision.policy=fp16"}},
                      std::pair{"mlp", std::vector<std::string>{"train.micro_batch=256"}},
                      std::pair{"mlp", std::vector<std::string>{"train.micro_batch=256", "precision.policy=bf16"}}),
    [](const auto& test) { return fmt::format("{}_{}", test.param.first, test.index); });

// Under ZeRO, too: what is whole, what is a shard, and the buffers that come and go.
TEST(ShardEstimates, AreWhatAStepHolds) {
  for (const char* stage : {"zero1", "zero2", "zero3"}) {
    for (const char* policy : {"fp32", "bf16"}) {
      for (const char* wrap : {"model", "block", "layer"}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", stage, policy, wrap));
        const RunConfig run =
            make_config("gpt2", {fmt::format("parallel.data={}", stage), fmt::format("precision.policy={}", policy),
                                 fmt::format("parallel.wrap={}", wrap), "model.layers=6"});
        const auto self = make_self_communicator("world");
        const Mesh mesh(*self, MeshShape(1, 1, 1, 1));
        TrainStep train_step(run, mesh);
        run_one_step(train_step, run);
        MemoryEstimate held;
        for (const OwnedSegment& segment : train_step.strategy().owned()) {
          held.parameters +=
              segment.values.bytes() + (segment.compute.raw() != segment.values.raw() ? segment.compute.bytes() : 0);
          held.gradients += segment.gradients.bytes();
          held.optimizer += 2 * segment.values.bytes();
        }
        held.buffers = dynamic_cast<Sharded&>(train_step.strategy()).buffer_bytes();
        const MemoryEstimate memory = estimate_memory(run, 0);
        EXPECT_EQ(memory.parameters, held.parameters);
        EXPECT_EQ(memory.gradients, held.gradients);
        EXPECT_TRUE(is_optimizer_of(memory.optimizer, held.optimizer));
        EXPECT_EQ(memory.buffers, held.buffers);
      }
    }
  }
  const auto of = [](const char* stage, Count ranks) {
    return estimate_memory(make_config("gpt2", {fmt::format("parallel.data={}", stage)}, ranks), 0);
  };
  EXPECT_NEAR(static_cast<double>(of("zero3", 8).parameters), static_cast<double>(of("zero3", 1).parameters) / 8.0, 8192.0);
  EXPECT_LT(of("zero2", 8).gradients, of("zero1", 8).gradients / 4);
}

// Moments in files leave the memory of the blocks at work; nothing else moves on a CPU.
TEST(OffloadEstimates, OnACpuTheMomentsMoveToTheDisk) {
  const TemporaryFolder folder;
  for (const char* stage : {"zero1", "zero3"}) {
    const std::string data = fmt::format("parallel.data={}", stage);
    const MemoryEstimate plain = estimate_memory(make_config("gpt2", {data}), 0);
    const RunConfig run =
        make_config("gpt2", {data, "parallel.offload=optimizer", "parallel.offload_directory=" + folder.path().string()});
    const auto self = make_self_communicator("world");
    const Mesh mesh(*self, MeshShape(1, 1, 1, 1));
    TrainStep train_step(run, mesh);
    Bytes largest = 0;
    for (const OwnedSegment& segment : train_step.strategy().owned()) largest = std::max(largest, segment.values.bytes());
    const MemoryEstimate memory = estimate_memory(run, 0);
    EXPECT_TRUE(is_optimizer_of(memory.optimizer, 3 * 2 * largest));
    EXPECT_TRUE(is_optimizer_of(plain.optimizer, memory.disk));
    EXPECT_EQ(memory.host, 0);
    EXPECT_EQ(memory.total(), plain.total() - plain.optimizer + memory.optimizer);
    EXPECT_EQ(static_cast<Bytes>(std::filesystem::file_size(folder / "run.rank0.moments")), memory.disk);
    EXPECT_NE(describe_memory({memory, memory.total()}).find("on disk"), std::string::npos);
  }
}

// On a GPU what stays there and what lies on the host are as much as without offload, but for the blocks at work and, where
// layers read fp32, a second copy of that.
TEST(OffloadEstimates, OnAGpuTheStateMovesToTheHost) {
  const Bytes lanes_in_fp32 = 3 * 4 * 1024 * 1024 * 4;
  for (const char* policy : {"fp32", "bf16"}) {
    for (const char* stage : {"zero1", "zero2", "zero3"}) {
      for (const char* offload : {"optimizer", "parameters"}) {
        if (std::string(offload) == "parameters" && std::string(stage) != "zero3") continue;
        SCOPED_TRACE(fmt::format("{}, {}, {}", policy, stage, offload));
        // Groups of more than a block.
        RunConfig run = make_config("gpt2", {fmt::format("parallel.data={}", stage), fmt::format("precision.policy={}", policy),
                                             "parallel.wrap=model", "model.width=1024"});
        run.device.kind = "cuda";
        const MemoryEstimate plain = estimate_memory(run, 0);
        run.parallel.offload = offload;
        const MemoryEstimate memory = estimate_memory(run, 0);
        const bool narrow = std::string(policy) == "bf16", all = std::string(offload) == "parameters";
        const Bytes values = plain.gradients, copies = narrow ? values / 2 : values;
        EXPECT_EQ(memory.optimizer, 0);
        EXPECT_EQ(memory.gradients, plain.gradients);
        EXPECT_EQ(memory.parameters, plain.parameters - (narrow ? values : 0) - (all ? copies : 0));
        // A shard that comes in from the host; in fp32, of which one rank's shard is the whole group, in memory that the pool
        // has.
        EXPECT_EQ(memory.buffers, plain.buffers + (all && narrow ? copies : 0));
        EXPECT_TRUE(is_optimizer_of(
            memory.host, 3 * values + (all && narrow ? copies : 0) + lanes_in_fp32 + (!all && narrow ? lanes_in_fp32 / 2 : 0)));
        EXPECT_EQ(memory.disk, 0);
        run.parallel.offload_directory = "/scratch";
        const MemoryEstimate on_disk = estimate_memory(run, 0);
        EXPECT_EQ(on_disk.disk, 2 * values);
        EXPECT_EQ(on_disk.host, memory.host - 2 * values + 2 * lanes_in_fp32);
        EXPECT_EQ(on_disk.total(), memory.total());
      }
    }
  }
}

// On a GPU three blocks' inputs stay, and the host has all of them, of every micro-batch under way.
TEST(OffloadEstimates, ActivationsOnAGpuDoNotGrowWithTheLayers) {
  const auto memory_of = [](Count layers, const std::vector<std::string>& more, Count ranks, int stage) {
    std::vector<std::string> overrides{fmt::format("model.layers={}", layers), "model.activation_checkpointing=full"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    RunConfig run = make_config("gpt2", overrides, ranks);
    run.device.kind = "cuda";
    return std::pair(estimate_memory(run, stage), run.train.micro_batch * 32 * 64 * 4);
  };
  const auto [kept, input] = memory_of(12, {}, 1, 0);
  for (const Count layers : {6, 12}) {
    SCOPED_TRACE(layers);
    const MemoryEstimate memory = memory_of(layers, {"model.activation_offload=true"}, 1, 0).first;
    EXPECT_EQ(memory.activations, kept.activations - 9 * input);
    EXPECT_EQ(memory.host, layers * input);
  }
  // The first of two stages has two micro-batches under way, of six blocks each; the last one, whose first input is a message.
  const std::vector<std::string> pipeline{"model.activation_offload=true", "parallel.pp=2", "train.accumulation=4"};
  EXPECT_EQ(memory_of(12, pipeline, 2, 0).first.host, 2 * 6 * input);
  EXPECT_EQ(memory_of(12, pipeline, 2, 1).first.host, 5 * input);
}

// Sums over ranks in 16 bits need room for the rounded gradients; sums in fp32, or none, do not.
TEST(ReductionEstimate, CountsTheRoundedGradients) {
  const auto gradients = [](const std::vector<std::string>& overrides, Count ranks) {
    return estimate_memory(make_config("gpt2", overrides, ranks), 0).gradients;
  };
  const Bytes fp32 = gradients({}, 2);
  EXPECT_EQ(gradients({"precision.policy=bf16"}, 2), fp32);
  EXPECT_EQ(gradients({"precision.policy=bf16", "precision.reduction=compute"}, 2), fp32 + fp32 / 2);
  EXPECT_EQ(gradients({"precision.policy=bf16", "precision.reduction=compute"}, 1), fp32);
  EXPECT_EQ(gradients({"precision.reduction=compute"}, 2), fp32);
}

TEST(BatchArithmetic, NamesEveryFactor) {
  const RunConfig gpt2 = make_config("gpt2", {"train.micro_batch=4", "train.global_batch=32"}, 4);
  EXPECT_EQ(gpt2.train.accumulation, 2);
  EXPECT_EQ(batch_arithmetic(gpt2), "global batch 32 = micro-batch 4 x dp 4 x accumulation 2: 1024 tokens per step");
  const RunConfig mlp = make_config("mlp", {"train.micro_batch=3", "train.accumulation=5"}, 2);
  EXPECT_EQ(batch_arithmetic(mlp), "global batch 30 = micro-batch 3 x dp 2 x accumulation 5");
}

TEST(DescribeRun, SaysLengthEpochsAndMemory) {
  const RunConfig run = make_config("gpt2", {"train.micro_batch=4", "train.steps=50"});
  const std::string text = describe_run(run, 100, 2);
  for (const char* part : {"gpt2", "50 steps", "2.00 epochs of 100 samples", "6.40K tokens", "activations"})
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in:\n" << text;
}

TEST(DescribeRun, SaysWhatTheRanksOfANodeKeepInHostMemory) {
  RunConfig run = make_config("gpt2", {"model.activation_offload=true", "model.activation_checkpointing=full"}, 2);
  run.device.kind = "cuda";
  EXPECT_NE(describe_run(run, 100, 2).find("on each node, for its 2 ranks"), std::string::npos) << describe_run(run, 100, 2);
  for (const int alone_or_unknown : {0, 1})
    EXPECT_EQ(describe_run(run, 100, alone_or_unknown).find("on each node"), std::string::npos) << alone_or_unknown;
}

}  // namespace
}  // namespace cohort::test
