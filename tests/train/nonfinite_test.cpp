// Bad data and a run that diverges: train.on_nonfinite.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

// The points of the mlp's runs, one of which has an infinite coordinate.
class PoisonedMoons : public TwoMoonsDataset {
 public:
  PoisonedMoons(const RunConfig& config, Count bad)
      : TwoMoonsDataset(config.run.seed, config.model.inputs, config.data.samples), bad_(bad) {}
  void fill(Split split, std::span<const Count> ids, Batch& batch) const override {
    TwoMoonsDataset::fill(split, ids, batch);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (split == Split::train && ids[i] == bad_)
        batch.features[i * static_cast<std::size_t>(batch.features_per_sample)] = std::numeric_limits<float>::infinity();
    }
  }

 private:
  Count bad_;
};

class NonFinite : public TrainerTest {
 protected:
  ExitCode train_poisoned(const RunConfig& config) const {
    prepare_run_directory(*world_, config.run.directory, ExistingRun::refuse);
    const RunData data{nullptr, std::make_unique<PoisonedMoons>(config, kBad), "poisoned"};
    return Trainer(config, data, *world_, {}).run();
  }
  // The ranks that get the bad sample in a step.
  std::vector<int> ranks_with_it(const RunConfig& config, Count step) const {
    const Sampler sampler(config.data.samples, config.run.seed, config.train.global_batch, "test");
    std::vector<int> ranks;
    for (int rank = 0; rank < world_->size(); ++rank) {
      for (Count micro_step = 0; micro_step < config.train.accumulation; ++micro_step) {
        const auto ids = sampler.local_samples(step, micro_step, rank, world_->size(), config.train.micro_batch);
        if (std::find(ids.begin(), ids.end(), kBad) != ids.end()) ranks.push_back(rank);
      }
    }
    return ranks;
  }

  static constexpr Count kBad = 7;
};

TEST_F(NonFinite, StopNamesStepRankAndLayer) {
  const RunConfig run = mlp_config({"run.name=run"});
  Count step = 0;
  while (ranks_with_it(run, step).empty()) ++step;
  const std::string at_step = fmt::format("step {}: ", step + 1);
  const std::string at_rank = fmt::format("that of layers.0 on rank {}", ranks_with_it(run, step).front());
  EXPECT_ERROR(train_poisoned(run), ExitCode::training, at_step.c_str(), at_rank.c_str(), "learning rate",
               "optimizer.learning_rate", "--resume");
}

TEST_F(NonFinite, SkipGoesOnWithoutTheStep) {
  const RunConfig run = mlp_config({"run.name=run", "train.on_nonfinite=skip"});
  ASSERT_EQ(train_poisoned(run), ExitCode::success);
  const Remains remains_of_run = remains("run");
  ASSERT_EQ(remains_of_run.metrics.size(), 10u);
  const std::string log = text_of(folder_ / "run" / "logs" / fmt::format("rank_{}", world_->rank()) / "train.log");
  Count skips = 0;
  for (Count step = 0; step < 10; ++step) {
    const std::vector<int> ranks = ranks_with_it(run, step);
    const std::string line = fmt::format("step {}: loss ", step + 1);
    EXPECT_EQ(log.find(line) != std::string::npos, !ranks.empty()) << "step " << step + 1;
    if (ranks.empty()) continue;
    ++skips;
    EXPECT_NE(log.find(fmt::format("layers.0 on rank {}; the step was skipped", ranks.front()), log.find(line)),
              std::string::npos);
  }
  EXPECT_GT(skips, 0);
  EXPECT_LT(skips, 10);
  // The weights never saw it: the validation is finite to the end.
  for (const double loss : remains_of_run.series("validation_loss")) EXPECT_TRUE(std::isfinite(loss));
}

// Weights of 1e6 in ten layers: from some step on nothing is finite any more, and skipping does not help.
TEST_F(NonFinite, SkippingEndsWhenItDoesNotHelp) {
  const auto diverging = [&](Overrides more) {
    more.insert(more.end(), {"model.layers=10", "optimizer.learning_rate=1e6"});
    return mlp_config(more);
  };
  EXPECT_ERROR(train(diverging({"run.name=stop"})), ExitCode::training, "training has diverged", "on rank 0");
  EXPECT_ERROR(train(diverging({"run.name=skip", "train.on_nonfinite=skip", "train.max_skips=3"})), ExitCode::training,
               "training has diverged", "3 steps in a row were skipped", "on rank 0");
}

// All ranks of a pipeline, and of matrices in parts, come to the same end.
TEST_F(NonFinite, PartsStopTogether) {
  if (world_->size() % 2 != 0) GTEST_SKIP() << "the model's two heads and layers are for even numbers of ranks";
  for (const char* axis : {"pp", "tp"}) {
    const RunConfig run = config({fmt::format("run.name={}", axis), fmt::format("parallel.{}=2", axis), "train.micro_batch=3",
                                  "optimizer.learning_rate=1e6"});
    EXPECT_ERROR(train(run), ExitCode::training, "gradient norm", "training has diverged");
  }
}

}  // namespace
}  // namespace cohort::test
