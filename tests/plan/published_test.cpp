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
  for (const char* more : {"model.kind=llama", "model.layers=32", "model.width=4096", "model.heads=32", "model.kv_heads=8",
                           "model.ffn_width=14336", "model.context=8192", "model.vocabulary=128256", "model.tied_head=false",
                           "device.kind=cuda", "precision.policy=bf16", "train.global_batch=0", "train.accumulation=1"})
    overrides.insert(overrides.begin(), more);
  return planned_run(ranks, overrides);
}

// Of all ranks together.
double tokens_per_second(const RunConfig& config, const char* gpu) {
  const double seconds = predict_step_time(config, count_stages(config), datasheet_profile(gpu), 8).seconds;
  return static_cast<double>(config.train.global_batch * config.model.context) / seconds;
}

struct Measured {
  const char* gpu;
  std::vector<std::string> overrides;
  double tokens_per_second;
};

// On one GPU, bf16, without recomputation.
RunConfig one_gpu(const Measured& run) {
  std::vector<std::string> overrides{"device.kind=cuda", "precision.policy=bf16", "train.global_batch=0", "train.accumulation=1"};
  overrides.insert(overrides.end(), run.overrides.begin(), run.overrides.end());
  return planned_run(1, overrides);
}

const std::vector<std::string> kGpt2Small{"model.layers=12", "model.width=768", "model.heads=12", "model.context=1024",
                                          "model.vocabulary=50257"};
const std::vector<std::string> kGpt2Large{"model.layers=36", "model.width=1280", "model.heads=20", "model.context=1024",
                                          "model.vocabulary=50257"};
const std::vector<std::string> kLlama{"model.kind=llama",       "model.layers=16",      "model.width=2048",
                                      "model.heads=32",         "model.kv_heads=8",     "model.ffn_width=8192",
                                      "model.vocabulary=32000", "model.tied_head=false"};

std::vector<std::string> with(std::vector<std::string> model, std::initializer_list<std::string> more) {
  model.insert(model.end(), more);
  return model;
}

// What Cohort was measured at: docs/performance.md and the runs behind it.
TEST(Published, DataSheetsPlanWhatCohortWasMeasuredAt) {
  const Measured runs[] = {{"h200", with(kGpt2Small, {"train.micro_batch=64", "train.accumulation=8"}), 636'000},
                           {"h200", with(kGpt2Small, {"train.micro_batch=32"}), 615'700},
                           {"h200", with(kGpt2Large, {"train.micro_batch=16", "train.accumulation=8"}), 107'800},
                           {"h200", with(kLlama, {"model.context=2048", "train.micro_batch=16"}), 86'900},
                           {"h200", with(kLlama, {"model.context=8192", "train.micro_batch=1"}), 62'400},
                           {"h200", with(kLlama, {"model.context=16384", "train.micro_batch=1"}), 52'250},
                           {"h100", with(kGpt2Small, {"train.micro_batch=64", "train.accumulation=8"}), 624'210},
                           {"h100", with(kGpt2Large, {"train.micro_batch=16", "train.accumulation=8"}), 107'148},
                           {"h100", with(kLlama, {"model.context=2048", "train.micro_batch=8"}), 81'423}};
  for (const Measured& run : runs)
    EXPECT_NEAR(tokens_per_second(one_gpu(run), run.gpu) / run.tokens_per_second, 1.0, 0.07)
        << run.gpu << " " << run.tokens_per_second;
}

// torchtitan (PyTorch), Llama 3.1 8B on 8 H100 of 500 W and 96 GB, 2 samples a GPU, FSDP, compiled: 6,667 tokens a second and
// GPU. It recomputes some of what Cohort recomputes; without torch.compile (5,762) there are kernels that no plan here knows of.
// On 64 A100, one sample each: 2,973. The bounds are those of the page: the plans are 10, 14 and 13 % above.
TEST(Published, DataSheetsPlanTorchtitansCompiledStep) {
  const auto planned = [](int gpus, const char* gpu, const char* samples, const std::string& keep) {
    const RunConfig config = llama_8b(gpus, {"parallel.data=zero3", samples, "model.activation_checkpointing=" + keep});
    return tokens_per_second(config, gpu) / gpus;
  };
  EXPECT_NEAR(planned(8, "h100-hbm2e-500w", "train.micro_batch=2", "full") / 6667, 1.10, 0.02);
  EXPECT_NEAR(planned(8, "h100-hbm2e-500w", "train.micro_batch=2", "selective") / 6667, 1.14, 0.02);
  EXPECT_NEAR(planned(64, "a100", "train.micro_batch=1", "full") / 2973, 1.13, 0.02);
}

// Rajbhandari et al. 2020 ("ZeRO"), figure 1: 7.5 billion parameters on 64 ranks, with 16 bytes of state each: 2 + 2 + 12.
TEST(Published, ZeroPaperDivides120GigabytesBy64) {
  const auto states = [](const char* data) {
    const RunConfig config = llama_8b(64, {std::string("parallel.data=") + data});
    const ByKind<PaperMemory> paper = paper_memory(config);
    double bytes = 0.0;
    for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer})
      bytes += paper[kind].bytes;
    return bytes / static_cast<double>(count_parameters(config.model)) * 7.5;  // GB of 7.5 billion
  };
  EXPECT_NEAR(states("bucketed"), 120.0, 0.05);
  EXPECT_NEAR(states("zero1"), 31.4, 0.05);
  EXPECT_NEAR(states("zero2"), 16.6, 0.05);
  EXPECT_NEAR(states("zero3"), 1.9, 0.05);
}

}  // namespace
}  // namespace cohort::test
