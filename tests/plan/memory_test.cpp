// The papers' formulas for memory by their own numbers, and predictions by numbers worked out by hand.
#include "plan/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model.hpp"
#include "planned_run.hpp"
#include "train/estimate.hpp"

namespace cohort::test {
namespace {

double bytes_of(const RunConfig& config, MemoryKind kind) { return paper_memory(config)[kind].bytes; }

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
  EXPECT_DOUBLE_EQ(activations(1, {"model.activation_checkpointing=true"}), 2.0);
}

// gpt2 in fp32: 16 numbers of width C that a block keeps, and its output, with statistics of two norms and of each head.
TEST(Activations, OursPerTokenAndLayer) {
  EXPECT_EQ(activation_bytes_per_token_and_layer(planned_run(1)), 4 * (16 * 64 + 4 + 4));
}

TEST(PredictedMemory, IsOfTheLargestStage) {
  const RunConfig config = planned_run(4, {"parallel.pp=4"});
  const PredictedMemory memory = predict_memory(config);
  Bytes most = 0;
  for (int stage = 0; stage < 4; ++stage) most = std::max(most, estimate_memory(config, stage).total());
  EXPECT_EQ(memory.total, most);
  EXPECT_GE(memory.kinds[MemoryKind::activations], estimate_memory(config, 3).activations);
}

}  // namespace
}  // namespace cohort::test
