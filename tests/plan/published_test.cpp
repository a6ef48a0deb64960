// Plans from data sheets beside what others have published and measured: docs/planning.md has the same table.
#include <gtest/gtest.h>

#include "plan/memory.hpp"
#include "plan/profile.hpp"
#include "plan/step_time.hpp"
#include "planned_run.hpp"

namespace cohort::test {
namespace {

// Llama 3.1 8B, bf16, samples of 8,192 tokens.
RunConfig llama_8b(Count ranks, std::vector<std::string> overrides) {
  for (const char* more :
       {"model.kind=llama", "model.layers=32", "model.width=4096", "model.heads=32", "model.kv_heads=8", "model.ffn_width=14336",
        "model.context=8192", "model.vocabulary=128256", "model.tied_head=false", "device.kind=cuda", "precision.policy=bf16",
        "train.global_batch=0", "train.accumulation=1"})
    overrides.insert(overrides.begin(), more);
  return planned_run(ranks, overrides);
}

double tokens_per_second(const RunConfig& config, const char* gpu) {
  const double seconds = predict_step_time(config, count_stages(config), datasheet_profile(gpu), 8).seconds;
  return static_cast<double>(config.train.global_batch * config.model.context) / seconds;
}

// Rajbhandari et al. 2020 ("ZeRO"), figure 1: 7.5 billion parameters on 64 ranks, with 16 bytes of state each: 2 + 2 + 12.
TEST(Published, ZeroPaperDivides120GigabytesBy64) {
  const auto states = [](const char* data) {
    const RunConfig config = llama_8b(64, {std::string("parallel.data=") + data});
    const ByKind<PaperMemory> paper = paper_memory(config);
    double bytes = 0.0;
    for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer}) bytes += paper[kind].bytes;
    return bytes / static_cast<double>(count_parameters(config.model)) * 7.5;  // GB of 7.5 billion
  };
  EXPECT_NEAR(states("bucketed"), 120.0, 0.05);
  EXPECT_NEAR(states("zero1"), 31.4, 0.05);
  EXPECT_NEAR(states("zero2"), 16.6, 0.05);
  EXPECT_NEAR(states("zero3"), 1.9, 0.05);
}

}  // namespace
}  // namespace cohort::test
