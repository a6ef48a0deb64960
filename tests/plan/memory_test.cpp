// The papers' formulas for memory by their own numbers, and predictions by numbers worked out by hand.
#include "plan/memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>

#include "models/model.hpp"
#include "plan/traffic.hpp"
#include "planned_run.hpp"
#include "train/estimate.hpp"

namespace cohort::test {
namespace {

double bytes_of(const RunConfig& config, MemoryKind kind) { return paper_memory(config)[kind].bytes; }

// The copies in 8 bits of a feed-forward layer's gradient [R, F], by rows and by columns, are where a step of a wide block is at
// its peak; beside them one of a weight or of its input. Nothing else is larger than in bf16.
TEST(PredictedMemory, HasTheCopiesIn8Bits) {
  RunConfig config = planned_run(1, {"device.kind=cuda", "precision.policy=bf16", "model.ffn_width=1024"});
  const MemoryKind all[] = {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer, MemoryKind::buffers};
  const auto bf16 = predict_memory(config).kinds;
  config.precision.policy = "fp8";
  const auto fp8 = predict_memory(config).kinds;
  const Bytes copies = 2 * config.train.micro_batch * config.model.context * config.model.ffn_width;
  EXPECT_GE(fp8[MemoryKind::activations] - bf16[MemoryKind::activations], copies);
  EXPECT_LE(fp8[MemoryKind::activations] - bf16[MemoryKind::activations], copies + copies / 4);
  for (const MemoryKind kind : all) EXPECT_EQ(fp8[kind], bf16[kind]);
}

// Rajbhandari et al. 2020, figure 1: 16 bytes a parameter in 16-bit training; with 64 ranks and K = 12, stage 1 leaves 4 + 12/64,
// stage 2 2 + 14/64 and stage 3 16/64.
TEST(PaperMemory, IsThatOfZero) {
  const auto per_parameter = [](const char* data) {
    const RunConfig config =
        planned_run(64, {std::string("parallel.data=") + data, "precision.policy=bf16", "train.global_batch=256"});
    const double bytes = bytes_of(config, MemoryKind::parameters) + bytes_of(config, MemoryKind::gradients) +
                         bytes_of(config, MemoryKind::optimizer);
    return bytes / static_cast<double>(count_parameters(config.model));
  };
  EXPECT_DOUBLE_EQ(per_parameter("bucketed"), 16.0);
  EXPECT_DOUBLE_EQ(per_parameter("zero1"), 4.0 + 12.0 / 64.0);
  EXPECT_DOUBLE_EQ(per_parameter("zero2"), 2.0 + 14.0 / 64.0);
  EXPECT_DOUBLE_EQ(per_parameter("zero3"), 16.0 / 64.0);
}

// Korthikanti et al. 2022, table 3: GPT-3 with 96 heads, width 12288, 96 layers, 2048 tokens, micro-batch 1. 5as/h is 80 there
// (section 5), so a layer keeps 114 sbh.
TEST(PaperMemory, IsThatOfMegatron) {
  const std::vector<std::string> gpt3{"model.layers=96",    "model.width=12288",   "model.heads=96",
                                      "model.context=2048", "train.micro_batch=1", "precision.policy=bf16"};
  const double sbh = 2048.0 * 12288.0;
  const auto activations = [&](Count ranks, std::vector<std::string> more) {
    more.insert(more.begin(), gpt3.begin(), gpt3.end());
    return bytes_of(planned_run(ranks, more), MemoryKind::activations) / sbh / 96.0;
  };
  EXPECT_DOUBLE_EQ(activations(1, {}), 114.0);
  EXPECT_DOUBLE_EQ(activations(8, {"parallel.tp=8"}), 10.0 + 24.0 / 8.0 + 80.0 / 8.0);
  EXPECT_DOUBLE_EQ(activations(8, {"parallel.tp=8", "parallel.sequence=true"}), 114.0 / 8.0);
  const std::string selective = "model.activation_checkpointing=selective";
  EXPECT_DOUBLE_EQ(activations(1, {"model.activation_checkpointing=full"}), 2.0);
  EXPECT_DOUBLE_EQ(activations(8, {"parallel.tp=8", "parallel.sequence=true", "model.activation_checkpointing=full"}), 2.0 / 8.0);
  EXPECT_DOUBLE_EQ(activations(1, {selective}), 4.0);
  EXPECT_DOUBLE_EQ(activations(8, {"parallel.tp=8", selective}), 2.0 + 2.0 / 8.0);
  EXPECT_DOUBLE_EQ(activations(8, {"parallel.tp=8", "parallel.sequence=true", selective}), 4.0 / 8.0);
}

// GPT-3 of 96 layers once more, of which 24 keep all: on a pipeline's last stage of four alone.
TEST(PaperMemory, OfSomeCheckpointedLayersIsTheSumOfBoth) {
  const std::vector<std::string> some{"model.layers=96",
                                      "model.width=12288",
                                      "model.heads=96",
                                      "model.context=2048",
                                      "train.micro_batch=1",
                                      "precision.policy=bf16",
                                      "model.activation_checkpointing=full",
                                      "model.checkpointed_layers=72"};
  const double sbh = 2048.0 * 12288.0;
  EXPECT_DOUBLE_EQ(bytes_of(planned_run(1, some), MemoryKind::activations) / sbh, 72 * 2.0 + 24 * 114.0);
  std::vector<std::string> pipeline = some;
  pipeline.emplace_back("parallel.pp=4");
  EXPECT_DOUBLE_EQ(bytes_of(planned_run(4, pipeline), MemoryKind::activations) / sbh, 24 * 114.0);
  // The third stage is not like the second: it keeps all, for two micro-batches.
  pipeline.emplace_back("model.checkpointed_layers=48");
  EXPECT_DOUBLE_EQ(bytes_of(planned_run(4, pipeline), MemoryKind::activations) / sbh, 2 * 24 * 114.0);
  const std::string formula = paper_memory(planned_run(1, some))[MemoryKind::activations].formula;
  EXPECT_EQ(formula, "2 sbh x 72 layers + sbh (34 + 5as/h) x 24 layers (in terms of Korthikanti 4)");
}

// As many layers as lanes are at work when a step is counted, and the output of every chunk that is under way: of a stage with
// more layers than lanes, with as many, and with fewer.
TEST(PaperMemory, OfOffloadedActivationsHasTheLanesAtWork) {
  for (const Count pp : {1, 2, 4}) {
    for (const Count chunks : {1, 2}) {
      if (pp == 1 && chunks > 1) continue;
      std::vector<std::string> overrides{"device.kind=cuda", "precision.policy=bf16", "model.layers=8",
                                         "model.activation_offload=true", fmt::format("parallel.pp={}", pp)};
      if (chunks > 1) overrides.insert(overrides.end(), {"parallel.schedule=interleaved", "parallel.chunks=2"});
      SCOPED_TRACE(fmt::format("pp {}, {} chunks", pp, chunks));
      const RunConfig config = planned_run(pp, overrides);
      const double sbh = 64.0 * 64.0 * static_cast<double>(config.train.micro_batch),
                   layer = (34.0 + 5.0 * 4.0 * 64.0 / 64.0) * sbh;
      double most = 0.0;
      for (const CountedStep& stage : count_stages(config)) {
        const auto& lanes = stage.arenas.offload.lanes;
        const auto used = std::count_if(lanes.begin(), lanes.end(), [](Bytes lane) { return lane > 0; });
        most = std::max(most, static_cast<double>(used) * layer + static_cast<double>(stage.arenas.under_way.size()) * 2.0 * sbh);
      }
      EXPECT_DOUBLE_EQ(bytes_of(config, MemoryKind::activations), most);
    }
  }
}

// Layers that keep all among others that recompute: the lanes are theirs, and the others' inputs stay.
TEST(PaperMemory, OfOffloadedWholeLayersHasLanesForThemAlone) {
  const RunConfig config =
      planned_run(1, {"device.kind=cuda", "precision.policy=bf16", "model.layers=8", "model.activation_offload=true",
                      "model.activation_checkpointing=full", "model.checkpointed_layers=6"});
  const double sbh = 64.0 * 64.0 * static_cast<double>(config.train.micro_batch);
  EXPECT_DOUBLE_EQ(bytes_of(config, MemoryKind::activations), 6.0 * 2.0 * sbh + 2.0 * (34.0 + 5.0 * 4.0 * 64.0 / 64.0) * sbh);
  const CountedStep counted = count_step(config, 0);
  const auto& lanes = counted.arenas.offload.lanes;
  EXPECT_EQ(std::count_if(lanes.begin(), lanes.end(), [](Bytes lane) { return lane > 0; }), 2);
  // Stages without such a layer keep their inputs, as many as micro-batches are under way.
  const RunConfig pipeline = planned_run(
      4, {"device.kind=cuda", "precision.policy=bf16", "model.layers=32", "parallel.pp=4", "model.activation_offload=true",
          "model.activation_checkpointing=full", "model.checkpointed_layers=31", "train.micro_batch=1"});
  const std::string formula = paper_memory(pipeline)[MemoryKind::activations].formula;
  EXPECT_NE(formula.find("2 sbh x 32 layers + 2 sbh x 4 outputs"), std::string::npos) << formula;
}

// gpt2 in fp32: 16 numbers of width C that a block keeps, and its output, with statistics of two norms and of each head. With
// checkpointing only the output, or also that of attention, and the statistics of its heads.
TEST(Activations, OursPerTokenAndLayer) {
  EXPECT_EQ(activation_bytes_per_token_and_layer(planned_run(1, {"model.activation_checkpointing=full"})), 4 * 64);
  EXPECT_EQ(activation_bytes_per_token_and_layer(planned_run(1, {"model.activation_checkpointing=selective"})), 4 * (2 * 64 + 4));
  const Bytes kept = 4 * (16 * 64 + 4 + 4);
  EXPECT_EQ(activation_bytes_per_token_and_layer(planned_run(1)), kept);
  const char *const cuda = "device.kind=cuda", *const optimizer = "parallel.offload=optimizer";
  for (const char* data : {"parallel.data=zero1", "parallel.data=zero3"})
    EXPECT_EQ(activation_bytes_per_token_and_layer(planned_run(2, {cuda, data, optimizer})), kept) << data;
}

TEST(PredictedMemory, IsOfTheLargestStage) {
  const RunConfig config = planned_run(4, {"parallel.pp=4"});
  const PredictedMemory memory = predict_memory(config);
  Bytes most = 0;
  for (int stage = 0; stage < 4; ++stage) most = std::max(most, estimate_memory(config, stage).total());
  EXPECT_EQ(memory.total, most);
  EXPECT_GE(memory.kinds[MemoryKind::activations], estimate_memory(config, 3).activations);
}

// Llama 3 of 70 billion parameters on 16,384 GPUs: 1.4 TB of weights, gradients and optimizer state in all. A plan holds none of
// it, and is there at once: in processor time, since other programs may run.
TEST(PredictedMemory, OfAVeryLargeRunTakesLittle) {
  const std::vector<std::string> llama70b{"model.kind=llama",      "model.layers=80",         "model.width=8192",
                                          "model.heads=64",        "model.kv_heads=8",        "model.ffn_width=28672",
                                          "model.context=8192",    "model.vocabulary=128256", "model.tied_head=false",
                                          "precision.policy=bf16", "train.micro_batch=1",     "train.global_batch=0",
                                          "train.accumulation=64", "parallel.tp=8",           "parallel.sequence=true"};
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return Bytes{usage.ru_maxrss} * kKiB;
  };
  for (const char* data : {"parallel.data=zero1", "parallel.data=zero3", "parallel.pp=16"}) {
    std::vector<std::string> overrides = llama70b;
    overrides.emplace_back(data);
    const RunConfig config = planned_run(16384, overrides);
    const Bytes before = peak();
    const std::clock_t start = std::clock();
    const std::vector<CountedStep> stages = count_stages(config);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1.0) << data;
    EXPECT_LT(peak() - before, 64 * kMiB) << data;
    EXPECT_GT(predict_memory(stages).total, kGiB) << data;
    EXPECT_FALSE(predict_traffic(stages).empty());
  }
}

}  // namespace
}  // namespace cohort::test
