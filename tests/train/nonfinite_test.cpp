// Bad data and a run that diverges: train.on_nonfinite.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

// The points of the mlp's runs, one of which, of a split, has an infinite coordinate.
class PoisonedMoons : public TwoMoonsDataset {
 public:
  PoisonedMoons(const RunConfig& config, Split split, Count bad)
      : TwoMoonsDataset(config.run.seed, config.model.inputs, config.data.samples), split_(split), bad_(bad) {}
  void fill(Split split, std::span<const Count> ids, Batch& batch) const override {
    TwoMoonsDataset::fill(split, ids, batch);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (split == split_ && ids[i] == bad_)
        batch.features[i * static_cast<std::size_t>(batch.features_per_sample)] = std::numeric_limits<float>::infinity();
    }
  }

 private:
  Split split_;
  Count bad_;
};

class NonFinite : public TrainerTest {
 protected:
  ExitCode train_poisoned(const RunConfig& config, Split split = Split::train) const {
    prepare_run_directory(*world_, config.run.directory, ExistingRun::refuse);
    const RunData data{nullptr, std::make_unique<PoisonedMoons>(config, split, kBad), "poisoned"};
    return Trainer(config, data, *world_, {}).run();
  }
  // One rank computes NaN in a step.
  ExitCode train_with_nan(RunConfig config, int rank, Count step) const {
    const RunData data = open_data(*world_, config, DataUse::training);
    prepare_run_directory(*world_, config.run.directory, ExistingRun::refuse);
    TrainerOptions options;
    options.faults = {FaultSection{.kind = "nan", .rank = rank, .step = step}};
    return Trainer(config, data, *world_, options).run();
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
  EXPECT_ERROR(train(diverging({"run.name=skip", "train.on_nonfinite=skip", "train.max_skips=3", "train.validate_every=0"})),
               ExitCode::training, "training has diverged", "3 steps in a row were skipped", "on rank 0");
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

// Step 4 is validated, then saved: its loss is no result, so the state is not kept.
TEST_F(NonFinite, AValidationLossThatIsNoNumberEndsTheRun) {
  const RunConfig run = mlp_config({"run.name=run", "checkpoint.every=2"});
  const std::string at_rank = fmt::format("that of layers.0 on rank {}", kBad / run.train.micro_batch % world_->size());
  EXPECT_ERROR(train_poisoned(run, Split::validation), ExitCode::training, "step 4: the validation loss is", at_rank.c_str());
  EXPECT_EQ(checkpoints("run"), std::vector<Count>{2});
  const std::string metrics = text_of(folder_ / "run" / "metrics.jsonl");
  EXPECT_NE(metrics.find("\"validation_loss\":null,\"validation_loss_text\":\"nan\""), std::string::npos) << metrics;
}

// At the smallest loss scale an overflow ends the run. A NaN of one rank is none: rank and layer are told.
TEST_F(NonFinite, ANanAtTheFloorOfTheLossScaleIsNotAnOverflow) {
  const int rank = world_->size() - 1;
  const RunConfig run = config({"run.name=run", "precision.policy=fp16", "precision.loss_scale=8", "precision.min_loss_scale=8"});
  EXPECT_ERROR(train_with_nan(run, rank, 3), ExitCode::training, "step 3: loss", fmt::format("on rank {}", rank).c_str(),
               "that of embedding");
}

}  // namespace
}  // namespace cohort::test
