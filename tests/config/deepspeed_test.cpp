// DeepSpeed configurations as run files: every key is either there with its meaning, or listed as not understood.
#include "config/deepspeed.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/run_file.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

// As the documentation of DeepSpeed shows it, with what Cohort has no counterpart for.
constexpr const char* kTypical = R"({
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "gradient_clipping": 0.5, "steps_per_print": 20, "wall_clock_breakdown": false,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.98], "eps": 1e-8, "weight_decay": 0.05}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 2e-4, "warmup_num_steps": 100, "total_num_steps": 2000}},
  "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500, "min_loss_scale": 2},
  "bf16": {"enabled": false},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": "auto",
                        "offload_optimizer": {"device": "cpu", "pin_memory": true}, "offload_param": {"device": "none"}}
})";

TEST(DeepSpeed, ATypicalConfigurationIsAValidRunFile) {
  const DeepSpeedImport import = import_deepspeed(kTypical, "ds.json");
  const RunConfig config = parse_run_file(to_run_file(import), "the import");
  EXPECT_EQ(config.train.global_batch, 64);
  EXPECT_EQ(config.train.micro_batch, 4);
  EXPECT_EQ(config.train.accumulation, 2);
  EXPECT_EQ(config.train.clip_norm, 0.5);
  EXPECT_EQ(config.log.every, 20);
  EXPECT_EQ(config.optimizer.learning_rate, 2e-4) << "the schedule's peak";
  EXPECT_EQ(config.optimizer.beta2, 0.98);
  EXPECT_EQ(config.optimizer.weight_decay, 0.05);
  EXPECT_EQ(config.schedule.kind, "linear");
  EXPECT_EQ(config.schedule.warmup_steps, 100);
  EXPECT_EQ(config.schedule.decay_steps, 2000);
  EXPECT_EQ(config.schedule.final_fraction, 0.0);
  EXPECT_EQ(config.precision.policy, "fp16");
  EXPECT_EQ(config.precision.loss_scale, 4096.0);
  EXPECT_EQ(config.precision.loss_scale_interval, 500);
  EXPECT_EQ(config.precision.min_loss_scale, 2.0);
  EXPECT_EQ(config.parallel.data, "zero3");
  EXPECT_EQ(config.parallel.offload, "optimizer");
  EXPECT_EQ(config.parallel.offload_directory, "");
}

TEST(DeepSpeed, OptimizersAreThoseThatCohortHas) {
  const DeepSpeedImport muon =
      import_deepspeed(R"({"optimizer": {"type": "Muon", "params": {"lr": 2e-3, "momentum": 0.9}}})", "ds.json");
  const OptimizerSection optimizer = parse_run_file(to_run_file(muon), "the import").optimizer;
  EXPECT_EQ(optimizer.kind, "muon");
  EXPECT_EQ(optimizer.learning_rate, 2e-3);
  EXPECT_EQ(std::get<double>(optimizer.own.at("momentum")), 0.9);
  EXPECT_TRUE(muon.not_understood.empty());
  const DeepSpeedImport other = import_deepspeed(R"({"optimizer": {"type": "Lamb"}})", "ds.json");
  ASSERT_FALSE(other.not_understood.empty());
  EXPECT_NE(other.not_understood.front().find("AdamW"), std::string::npos) << other.not_understood.front();
}

TEST(DeepSpeed, StagesOfAPipelineAndPartsOfMatrices) {
  const DeepSpeedImport import =
      import_deepspeed(R"({"pipeline": {"stages": 4}, "tensor_parallel": {"autotp_size": 2}})", "ds.json");
  const RunConfig config = parse_run_file(to_run_file(import), "the import");
  EXPECT_EQ(config.parallel.pp, 4);
  EXPECT_EQ(config.parallel.tp, 2);
  EXPECT_TRUE(import.not_understood.empty());
}

TEST(DeepSpeed, WhatWasNotUnderstoodIsListed) {
  const DeepSpeedImport import = import_deepspeed(kTypical, "ds.json");
  const auto lists = [&](const std::string& part) {
    return std::any_of(import.not_understood.begin(), import.not_understood.end(),
                       [&](const std::string& entry) { return entry.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(lists("zero_optimization.overlap_comm = true"));
  EXPECT_FALSE(lists("wall_clock_breakdown")) << "is off";
  EXPECT_FALSE(lists("reduce_bucket_size")) << "is left to us";
  EXPECT_FALSE(lists("offload_param")) << "is none";
  EXPECT_EQ(import.not_understood.size(), 1u) << to_run_file(import);
  EXPECT_NE(to_run_file(import).find("# Not understood"), std::string::npos);

  const DeepSpeedImport other = import_deepspeed(R"({"optimizer": {"type": "Lamb", "params": {"lr": 1e-4}},
    "scheduler": {"type": "OneCycle"}, "fp16": {"enabled": true, "loss_scale": 128}})",
                                                 "ds.json");
  EXPECT_EQ(other.not_understood.size(), 4u) << to_run_file(other);
  EXPECT_TRUE(std::none_of(other.keys.begin(), other.keys.end(), [](const auto& key) { return key.section == "optimizer"; }));
}

TEST(DeepSpeed, StagesAndTypes) {
  const auto data_of = [](int stage) {
    return parse_run_file(to_run_file(import_deepspeed(fmt::format(R"({{"zero_optimization": {{"stage": {}}}}})", stage), "x")),
                          "y")
        .parallel.data;
  };
  EXPECT_EQ(data_of(0), "bucketed");
  EXPECT_EQ(data_of(1), "zero1");
  EXPECT_EQ(data_of(2), "zero2");
  EXPECT_EQ(data_of(3), "zero3");
  const std::string bf16 =
      to_run_file(import_deepspeed(R"({"bf16": {"enabled": true}, "fp16": {"enabled": false, "loss_scale": 1}})", "x"));
  EXPECT_EQ(parse_run_file(bf16, "y").precision.policy, "bf16");
  EXPECT_EQ(bf16.find("Not understood"), std::string::npos) << bf16;
  const auto reduction_of = [](const std::string& type) {
    const std::string text = fmt::format(R"({{"bf16": {{"enabled": true}}, "communication_data_type": "{}"}})", type);
    const DeepSpeedImport import = import_deepspeed(text, "x");
    return import.not_understood.empty() ? parse_run_file(to_run_file(import), "y").precision.reduction : "?";
  };
  EXPECT_EQ(reduction_of("bf16"), "compute");
  EXPECT_EQ(reduction_of("fp32"), "fp32");
  EXPECT_EQ(reduction_of("fp16"), "?");
}

TEST(DeepSpeed, Offload) {
  const auto import_of = [](int stage, const std::string& offload) {
    return import_deepspeed(fmt::format(R"({{"zero_optimization": {{"stage": {}, {}}}}})", stage, offload), "x");
  };
  const auto parallel_of = [&](int stage, const std::string& offload) {
    const DeepSpeedImport import = import_of(stage, offload);
    EXPECT_TRUE(import.not_understood.empty()) << to_run_file(import);
    return parse_run_file(to_run_file(import), "y").parallel;
  };
  EXPECT_EQ(parallel_of(2, R"("offload_optimizer": {"device": "none"})").offload, "none");
  EXPECT_EQ(parallel_of(1, R"("offload_optimizer": {"device": "cpu", "pin_memory": false})").offload, "optimizer");
  const std::string parameters = R"("offload_param": {"device": "cpu"})";
  EXPECT_EQ(parallel_of(3, parameters).offload, "parameters");
  const std::string nvme = R"("offload_optimizer": {"device": "nvme", "nvme_path": "/local/\"nvme\""})";
  EXPECT_EQ(parallel_of(3, nvme).offload, "optimizer");
  EXPECT_EQ(parallel_of(3, nvme).offload_directory, "/local/\"nvme\"");
  EXPECT_EQ(parallel_of(3, nvme + ", " + parameters).offload, "parameters");
  EXPECT_EQ(parallel_of(3, nvme + ", " + parameters).offload_directory, "/local/\"nvme\"");
  // What is not taken over is listed, and asks for nothing.
  for (const auto& [stage, text] : {std::pair{3, R"("offload_optimizer": {"device": "nvme"})"},
                                    {3, R"("offload_param": {"device": "nvme", "nvme_path": "/local"})"},
                                    {3, R"("offload_optimizer": {"device": "tape"})"},
                                    {2, R"("offload_param": {"device": "cpu"})"},
                                    {0, R"("offload_optimizer": {"device": "cpu"})"}}) {
    const DeepSpeedImport import = import_of(stage, text);
    EXPECT_FALSE(import.not_understood.empty()) << text;
    EXPECT_EQ(parse_run_file(to_run_file(import), "y").parallel.offload, "none") << text;
  }
}

TEST(DeepSpeed, BadInputIsRefused) {
  EXPECT_ERROR(import_deepspeed("{\"a\": ", "ds.json"), ExitCode::config, "ds.json", "not valid JSON", "byte");
  EXPECT_ERROR(import_deepspeed("[1]", "ds.json"), ExitCode::config, "ds.json", "object");
  EXPECT_ERROR(import_deepspeed(R"({"train_batch_size": "many"})", "ds.json"), ExitCode::config, "train_batch_size", "number");
  EXPECT_ERROR(import_deepspeed(R"({"train_batch_size": 1.5})", "ds.json"), ExitCode::config, "train_batch_size", "integer");
  EXPECT_ERROR(import_deepspeed(R"({"zero_optimization": {"stage": 4}})", "ds.json"), ExitCode::config, "stage = 4",
               "0, 1, 2 and 3");
  EXPECT_ERROR(import_deepspeed(R"({"bf16": {"enabled": 1}})", "ds.json"), ExitCode::config, "bf16.enabled = 1", "true or false");
}

}  // namespace
}  // namespace cohort
