// Runs with adapters: the same in every layout, resumed to the bit, the weights beside them untouched; and layouts that cannot
// have them are refused.
#include <fmt/ranges.h>

#include <algorithm>

#include "comm/self_communicator.hpp"
#include "config/validate.hpp"
#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class LoraRuns : public TrainerTest {
 protected:
  static bool is_adapter(const std::string& tensor) { return tensor.find("/lora_") != std::string::npos; }

  Overrides with_lora(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"run.name=" + name, "lora.rank=4", "lora.targets=*", "optimizer.learning_rate=0.01"});
    return overrides;
  }

  // Weights to adapt, of a run on all parameters.
  std::string base() {
    EXPECT_EQ(train(config({"run.name=base"})), ExitCode::success);
    return config({"run.name=base"}).run.directory;
  }

  void expect_near(const Remains& values, const Remains& wanted) const {
    for (const char* key : {"loss", "gradient_norm", "validation_loss"}) {
      const std::vector<double> series = values.series(key), of_one = wanted.series(key);
      ASSERT_EQ(series.size(), of_one.size()) << key;
      for (std::size_t i = 0; i < of_one.size(); ++i) EXPECT_NEAR(series[i], of_one[i], kDrift * of_one[i]) << key << " " << i;
    }
    EXPECT_EQ(values.tensors.size(), wanted.tensors.size());
    for (const auto& [name, bytes] : wanted.tensors) {
      ASSERT_TRUE(values.tensors.contains(name)) << name;
      const std::vector<std::byte>& other = values.tensors.at(name);
      ASSERT_EQ(other.size(), bytes.size()) << name;
      if (!is_adapter(name)) {
        EXPECT_EQ(other, bytes) << name;
      }
    }
  }
};

TEST_F(LoraRuns, EveryLayoutIsOneRank) {
  const std::string initial = "run.initial_checkpoint=" + base();
  if (root()) {
    const auto self = make_self_communicator("world");
    EXPECT_EQ(train(config(with_lora("alone", {initial, "parallel.data=monolith"}), 1), *self), ExitCode::success);
  }
  world_->barrier();
  const Remains alone = remains("alone");
  for (const auto& [name, bytes] : alone.tensors) {  // all began to learn
    EXPECT_TRUE(std::any_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{0}; })) << name;
  }
  std::vector<Overrides> layouts;
  for (const char* data : {"naive", "hooks", "bucketed", "zero1", "zero2"})
    layouts.push_back({fmt::format("parallel.data={}", data)});
  if (const int ranks = world_->size(); ranks == 2 || ranks == 4) {
    const std::string all = std::to_string(ranks);
    layouts.push_back({"parallel.tp=2"});
    layouts.push_back({"parallel.tp=2", "parallel.sequence=true"});
    layouts.push_back({"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"});
    layouts.push_back({"parallel.pp=2"});
    layouts.push_back({"parallel.cp=" + all});
    if (ranks == 4) layouts.push_back({"parallel.tp=2", "parallel.data=zero2"});
    if (ranks == 4) layouts.push_back({"parallel.pp=2", "parallel.tp=2"});
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layouts[i], " ")));
    const std::string name = fmt::format("layout{}", i);
    Overrides overrides = layouts[i];
    overrides.push_back(initial);
    ASSERT_EQ(train(config(with_lora(name, overrides))), ExitCode::success);
    expect_near(remains(name), alone);
  }
}

TEST_F(LoraRuns, WeightsStayAndHaveNoOptimizerState) {
  const std::string initial = base();
  ASSERT_EQ(train(config(with_lora("run", {"run.initial_checkpoint=" + initial}))), ExitCode::success);
  const Remains before = remains("base"), after = remains("run");
  std::size_t weights = 0, adapters = 0;
  for (const auto& [name, bytes] : after.tensors) {
    if (is_adapter(name)) {
      ++adapters;
    } else {
      ASSERT_TRUE(name.starts_with("/model/")) << name;  // else it would be optimizer state
      EXPECT_EQ(bytes, before.tensors.at(name)) << name;
      ++weights;
    }
  }
  EXPECT_GT(weights, 0u);
  EXPECT_GT(adapters, 0u);
  EXPECT_EQ(adapters % 6, 0u);  // A and B, and m and v of each
}

TEST_F(LoraRuns, ResumesToTheBit) {
  const Overrides initial{"run.initial_checkpoint=" + base()};
  for (const char* data : {"bucketed", "zero2"}) {
    SCOPED_TRACE(data);
    Overrides overrides = initial;
    overrides.push_back(fmt::format("parallel.data={}", data));
    const std::string whole = fmt::format("whole_{}", data), halves = fmt::format("halves_{}", data);
    ASSERT_EQ(train(config(with_lora(whole, overrides))), ExitCode::success);
    overrides.push_back("train.steps=5");
    overrides.push_back("schedule.decay_steps=10");
    ASSERT_EQ(train(config(with_lora(halves, overrides))), ExitCode::success);
    overrides[overrides.size() - 2] = "train.steps=10";
    ASSERT_EQ(train(config(with_lora(halves, overrides)), ExistingRun::resume), ExitCode::success);
    EXPECT_EQ(remains(halves).tensors, remains(whole).tensors);
  }
}

TEST_F(LoraRuns, WhatCannotBeIsRefused) {
  const auto refuses = [&](const Overrides& overrides, const char* part) {
    EXPECT_ERROR(config(overrides), ExitCode::config, part);
  };
  refuses({"lora.rank=4", "parallel.data=zero3"}, "choose zero2");
  refuses({"lora.targets=*"}, "has no effect with lora.rank = 0");
  refuses({"lora.rank=4", "lora.targets= , "}, "names no weights");
  EXPECT_ERROR(mlp_config({"lora.rank=4"}), ExitCode::config, "no transformer blocks");
}

}  // namespace
}  // namespace cohort::test
