// layers.jsonl: the figures of weights, gradients and activations are those of one rank in every layout.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <set>

#include "comm/self_communicator.hpp"
#include "support/test_device.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

using nlohmann::json;

constexpr int kBins = 400;  // more than there are

// Counts by bin, of both signs, with zeros in the middle.
std::vector<double> bins_of(const json& values) {
  std::vector<double> bins(2 * kBins + 1, 0.0);
  bins[kBins] = values.at("zeros");
  for (const auto& [name, sign] : {std::pair{"negative", -1}, {"positive", 1}}) {
    if (!values.contains(name)) continue;
    int bin = values.at(name).at("first").get<int>() + kBins / 2;
    for (const json& count : values.at(name).at("counts")) bins[static_cast<std::size_t>(kBins + sign * bin++)] = count;
  }
  return bins;
}

class LayerLog : public TrainerTest {
 protected:
  static constexpr const char* kThreeSteps = "train.steps=3";

  std::vector<json> layers(const std::string& name) const {
    world_->barrier();
    std::vector<json> records;
    std::ifstream lines(folder_ / name / "layers.jsonl");
    for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line));
    world_->barrier();
    return records;
  }

  /// By rank 0 without the others. // Collective over: world
  std::vector<json> alone(bool llama) {
    if (root()) {
      const auto self = make_self_communicator("world");
      const Overrides overrides{"run.name=alone", "parallel.data=monolith", "observe.layers_every=1", kThreeSteps};
      EXPECT_EQ(train(config_of(llama, overrides, 1), *self), ExitCode::success);
    }
    return layers("alone");
  }
  RunConfig config_of(bool llama, const Overrides& overrides, int ranks) const {
    if (!llama) return config(overrides, ranks);
    return finish(
        "[model]\nkind=\"llama\"\nlayers=2\nwidth=16\nheads=4\nkv_heads=1\ncontext=8\ntied_head=false\n[sample]\ntokens=0\n",
        with_tokens(overrides), ranks);
  }

  // As far as so many ranks allow: everything that cuts or copies parameters, and everything that cuts the batch.
  std::vector<Overrides> layouts() const {
    const int ranks = world_->size();
    std::vector<Overrides> all{{"parallel.data=bucketed"},
                               {"parallel.data=zero1"},
                               {"parallel.data=zero2", "parallel.wrap=layer"},
                               {"parallel.data=zero3"},
                               {"parallel.data=zero1", "parallel.offload=optimizer",
                                "parallel.offload_directory=" + (folder_ / "moments").parent_path().string()}};
    if (ranks % 2 == 0) {
      all.insert(all.end(), {{"parallel.tp=2"},
                             {"parallel.tp=2", "parallel.sequence=true"},
                             {"parallel.cp=2", "parallel.data=zero3"},
                             {"parallel.pp=2", "train.micro_batch=3", "parallel.data=zero1"}});
    }
    if (ranks == 4) {
      all.insert(all.end(), {{"parallel.data=zero3", "parallel.shard_ranks=2"},
                             {"parallel.pp=2", "parallel.tp=2", "parallel.sequence=true", "train.micro_batch=3"},
                             {"parallel.cp=2", "parallel.tp=2", "parallel.sequence=true", "parallel.data=zero1"}});
    }
    return all;
  }

  static void expect_close(const json& values, const json& wanted, double moving) {
    ASSERT_EQ(values.at("elements"), wanted.at("elements"));
    const double norm = wanted.at("norm");
    EXPECT_NEAR(values.at("norm").get<double>(), norm, kDrift * norm);
    // Rounding moves what is near an edge to the next bin, and gradients that would be zero anywhere.
    const std::vector<double> bins = bins_of(values), others = bins_of(wanted);
    double moved = 0.0;
    for (std::size_t i = 0; i < bins.size(); ++i) moved += 0.5 * std::abs(bins[i] - others[i]);
    EXPECT_LE(moved, std::max(1.0, moving * wanted.at("elements").get<double>()));
  }

  void expect_as_alone(bool llama, double moving) {
    const std::vector<json> wanted = alone(llama);
    ASSERT_EQ(wanted.size(), 3);
    int number = 0;
    for (const Overrides& layout : layouts()) {
      SCOPED_TRACE(testing::PrintToString(layout));
      const std::string name = fmt::format("run{}", ++number);
      Overrides all{"run.name=" + name, "observe.layers_every=1", kThreeSteps};
      all.insert(all.end(), layout.begin(), layout.end());
      ASSERT_EQ(train(config_of(llama, all, world_->size())), ExitCode::success);
      const std::vector<json> records = layers(name);
      ASSERT_EQ(records.size(), wanted.size());
      for (std::size_t step = 0; step < wanted.size(); ++step) {
        const json& together = records[step].at("layers");
        ASSERT_EQ(together.size(), wanted[step].at("layers").size());
        for (const auto& [unit, kinds] : wanted[step].at("layers").items()) {
          for (const auto& [kind, values] : kinds.items()) {
            SCOPED_TRACE(fmt::format("step {}, {} of {}", step + 1, kind, unit));
            expect_close(together.at(unit).at(kind), values, kind == "activations" ? 0.002 : moving);
          }
        }
      }
      if (number == 1) expect_norm_of_the_metrics(name, records);
    }
  }

  // Each gradient counts once there, too.
  void expect_norm_of_the_metrics(const std::string& name, const std::vector<json>& records) {
    const std::vector<double> norms = remains(name).series("gradient_norm");
    for (std::size_t step = 0; step < records.size(); ++step) {
      double squares = 0.0;
      for (const auto& [unit, kinds] : records[step].at("layers").items())
        squares += std::pow(kinds.at("gradients").at("norm").get<double>(), 2);
      EXPECT_NEAR(std::sqrt(squares), norms[step], 1e-5 * norms[step]);
    }
  }
};

// The biases of keys have gradients of rounding alone, 2 % of the elements of a block here.
TEST_F(LayerLog, IsThatOfOneRankInEveryLayout) { expect_as_alone(/*llama=*/false, 0.03); }

TEST_F(LayerLog, IsThatOfOneRankWithSharedHeadsAndAnUntiedHead) {
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "heads of 4 are none of a GPU's";
  expect_as_alone(/*llama=*/true, 0.005);
}

TEST_F(LayerLog, HasTheFirstTheLastAndEveryNthStep) {
  ASSERT_EQ(train(config({"run.name=run", "observe.layers_every=4"})), ExitCode::success);
  std::vector<Count> steps;
  for (const json& record : layers("run")) steps.push_back(record.at("step"));
  EXPECT_EQ(steps, (std::vector<Count>{1, 4, 8, 10}));
  ASSERT_EQ(train(config({"run.name=none", "observe.layers_every=0"})), ExitCode::success);
  EXPECT_TRUE(layers("none").empty());
  EXPECT_EQ(remains("none").tensors, remains("run").tensors);  // looking changes no bit
}

// fp16: gradients carry the loss scale, which is no part of their figures; classifiers have units of other names.
TEST_F(LayerLog, KnowsGradientsWithoutTheLossScaleAndEveryFamily) {
  ASSERT_EQ(train(config({"run.name=full", kThreeSteps, "observe.layers_every=1"})), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=half", kThreeSteps, "observe.layers_every=1", "precision.policy=fp16"})), ExitCode::success);
  const json full = layers("full").at(0).at("layers"), half = layers("half").at(0).at("layers");
  for (const auto& [unit, kinds] : full.items()) {
    const double norm = kinds.at("gradients").at("norm");
    EXPECT_NEAR(half.at(unit).at("gradients").at("norm").get<double>(), norm, 0.05 * norm) << unit;
  }
  ASSERT_EQ(train(mlp_config({"run.name=mlp", kThreeSteps, "observe.layers_every=1"})), ExitCode::success);
  EXPECT_EQ(layers("mlp").at(0).at("layers").size(), 4);
}

// A fault of the first kind: a unit whose output is no number.
TEST_F(LayerLog, CountsWhatIsNoNumber) {
  RunConfig run = config(
      {"run.name=nan", kThreeSteps, "observe.layers_every=1", "train.on_nonfinite=skip", "fault.kind=nan", "fault.step=2"});
  const RunData data = open_data(*world_, run, DataUse::training);
  prepare_run_directory(*world_, run.run.directory, ExistingRun::refuse, {});
  TrainerOptions options;
  options.faults = {run.fault};
  ASSERT_EQ(Trainer(run, data, *world_, options).run(), ExitCode::success);
  const std::vector<json> records = layers("nan");
  ASSERT_EQ(records.size(), 3);
  EXPECT_TRUE(records[1].at("layers").at("head").at("activations").at("norm").is_null());
  EXPECT_GT(records[1].at("layers").at("head").at("activations").at("not_finite"), 0);
  EXPECT_EQ(records[1].at("layers").at("head").at("activations").at("elements"),
            records[0].at("layers").at("head").at("activations").at("elements"));  // though the fault was looked for
  EXPECT_GT(records[2].at("layers").at("head").at("activations").at("norm"), 0.0);
}

TEST_F(LayerLog, GoesOnWithoutDuplicates) {
  ASSERT_EQ(train(config({"run.name=run", "observe.layers_every=1", "train.steps=7", "checkpoint.at_end=false"})),
            ExitCode::success);
  const std::vector<json> before = layers("run");
  ASSERT_EQ(train(config({"run.name=run", "observe.layers_every=1"}), ExistingRun::resume), ExitCode::success);
  const std::vector<json> after = layers("run");
  ASSERT_EQ(after.size(), 10);
  for (std::size_t step = 0; step < 7; ++step) EXPECT_EQ(after[step], before[step]) << step;
}

}  // namespace
}  // namespace cohort::test
