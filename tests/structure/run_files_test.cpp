// Every run file under inputs/ is accepted for the numbers of ranks that its comments speak of, and refused for one that they
// call wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"

namespace cohort {
namespace {

struct Launch {
  Count ranks;
  std::vector<std::string> overrides;
};

const std::filesystem::path kInputs = std::filesystem::path(COHORT_SOURCE_DIR) / "inputs";

RunConfig resolve(const std::string& file, const Launch& launch) {
  RunConfig config = load_run_file(kInputs / file, launch.overrides);
  validate(config, launch.ranks, {.cuda = true});
  return config;
}

std::vector<Launch> each_strategy() {
  return {{1, {"parallel.data=monolith"}}, {1, {"parallel.data=manual"}},   {2, {"parallel.data=naive"}},
          {4, {"parallel.data=hooks"}},    {4, {"parallel.data=bucketed"}}, {2, {"parallel.data=bucketed", "run.name=mine"}}};
}

const std::map<std::string, std::vector<Launch>>& launches() {
  static const std::map<std::string, std::vector<Launch>> kLaunches{
      {"batch_sweep.toml",
       {{2, {}}, {2, {"train.global_batch=8"}}, {2, {"train.global_batch=256"}}, {2, {"optimizer.rate_scaling=linear"}}}},
      {"demo.toml", {{4, {}}, {2, {}}, {1, {}}, {4, {"train.steps=50", "run.name=short"}}}},
      {"finetune.toml", {{2, {}}, {2, {"run.name=lora", "lora.rank=8", "optimizer.learning_rate=0.003"}}}},
      {"gpt2_124m.toml", {{1, {}}, {8, {}}, {1, {"device.kind=cpu"}}}},
      {"lab00_setup.toml", {{1, {}}, {2, {}}, {4, {}}}},
      {"lab03_collectives.toml", {{4, {}}, {2, {}}, {1, {}}}},
      {"lab11_own_text.toml",
       {{2, {}},
        {1, {}},
        {4, {"train.micro_batch=4"}},
        {2, {"data.tokens=data/bytes.h5", "run.name=lab11-bytes"}},
        {2, {"data.documents=separate"}}}},
      {"lab12_kernels.toml", {{1, {}}, {1, {"device.kernels=portable"}}}},
      {"lab01_tiny_transformer.toml",
       {{1, {}},
        {1, {"run.name=deep", "model.layers=4"}},
        {1, {"run.name=wide", "model.width=128"}},
        {1, {"run.name=heads", "model.heads=8"}},
        {1, {"train.steps=600"}},
        {1, {"train.steps=600", "schedule.decay_steps=600"}}}},
      {"lab01_llama.toml", {{1, {}}, {2, {}}, {2, {"run.name=norm"}}}},
      {"lab02_gpt2.toml", each_strategy()},
      {"lab02_mlp.toml", each_strategy()},
      {"lab04_two_nodes.toml", {{4, {}}}},
      {"lab05_precision.toml",
       {{2, {}}, {1, {}}, {2, {"precision.policy=bf16", "unset precision.loss_scale", "unset precision.loss_scale_interval"}}}},
      {"lab06_memory.toml", {{4, {}}, {2, {"parallel.data=FULL_SHARD"}}, {4, {"model.activation_checkpointing=full"}}}},
      {"lab07_tensor_parallel.toml",
       {{4, {}}, {4, {"parallel.tp=4", "parallel.cp=1"}}, {2, {"unset parallel.cp", "unset parallel.sequence"}}}},
      {"lab08_pipelines.toml", {{4, {}}, {4, {"parallel.schedule=gpipe", "run.name=gpipe"}}, {2, {"parallel.pp=2"}}}},
      {"lab09_checkpoints.toml", {{4, {}}, {2, {}}, {4, {"checkpoint.form=consolidated"}}}},
      {"lab10_operations.toml", {{4, {}}}},
      {"llama_8b.toml", {{8, {}}, {512, {}}}},
      {"mixture.toml", {{2, {}}, {1, {}}, {2, {"data.stages.2.weights.more=5", "run.name=other"}}}},
      {"muon.toml",
       {{4, {}},
        {2, {}},
        {1, {}},
        {4, {"parallel.data=zero2"}},
        {1, {"optimizer.kind=adamw", "unset optimizer.momentum", "unset optimizer.newton_schulz_steps"}}}},
      {"own_text.toml", {{2, {}}, {1, {}}, {4, {"train.micro_batch=8"}}}},
  };
  return kLaunches;
}

TEST(RunFiles, EachIsAcceptedAsItsCommentsSay) {
  for (const auto& [file, ways] : launches()) {
    for (const Launch& launch : ways) EXPECT_NO_THROW(resolve(file, launch)) << file << " on " << launch.ranks << " ranks";
  }
}

TEST(RunFiles, NoneIsForgottenHere) {
  for (const auto& entry : std::filesystem::directory_iterator(kInputs)) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_EQ(launches().count(entry.path().filename().string()), 1u) << entry.path();
  }
}

// Lab 2 asks why the losses do not depend on the number of ranks: because the global batch does not.
TEST(RunFiles, LabsKeepTheGlobalBatchOnAnyNumberOfRanks) {
  for (const std::string file : {"lab02_gpt2.toml", "lab02_mlp.toml"}) {
    for (const Launch& launch : each_strategy()) {
      EXPECT_EQ(resolve(file, launch).train.global_batch, load_run_file(kInputs / file).train.global_batch);
    }
  }
}

TEST(RunFiles, WhatTheCommentsCallRefusedIsRefused) {
  EXPECT_THROW(resolve("lab01_tiny_transformer.toml", {1, {"model.heads=5"}}), Error);
  EXPECT_THROW(resolve("lab04_two_nodes.toml", {3, {}}), Error);
}

}  // namespace
}  // namespace cohort
