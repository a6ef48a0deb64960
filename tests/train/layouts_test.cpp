// What must not depend on the number of ranks: losses, learning rates, the samples of each step, the validation loss.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>

#include "comm/self_communicator.hpp"
#include "support/device_model.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class Layouts : public TrainerTest {
 protected:
  /// The same run on one rank, by rank 0 without the others. // Collective over: world
  void train_alone(const std::string& name) {
    if (root()) {
      const auto self = make_self_communicator("world");
      EXPECT_EQ(train(config({"run.name=" + name, "parallel.data=monolith"}, 1), *self), ExitCode::success);
    }
    world_->barrier();
  }
};

// The ids behind "samples" in a line of a rank's log.
std::vector<Count> samples_in(const std::string& line) {
  std::istringstream words(line.substr(line.find(" samples ") + 9));
  std::vector<Count> samples;
  for (Count id = 0; words >> id;) samples.push_back(id);
  return samples;
}

// Two micro-batches of uneven dropout, clipping, ten steps of AdamW: fp32 sums in another order, so not the same bits.
TEST_F(Layouts, EveryStrategyHasTheMetricsOfOneRank) {
  train_alone("alone");
  const Remains alone = remains("alone");
  for (const char* strategy : {"naive", "hooks", "bucketed", "zero1", "zero2", "zero3"}) {
    SCOPED_TRACE(strategy);
    ASSERT_EQ(train(config({fmt::format("run.name={}", strategy), fmt::format("parallel.data={}", strategy)})),
              ExitCode::success);
    const Remains together = remains(strategy);
    for (const char* key : {"loss", "gradient_norm", "validation_loss"}) {
      const std::vector<double> values = together.series(key), wanted = alone.series(key);
      ASSERT_EQ(values.size(), wanted.size()) << key;
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], kDrift * wanted[i]) << key << " " << i;
    }
    for (const char* key : {"step", "learning_rate", "tokens", "epoch"})
      EXPECT_EQ(together.series(key), alone.series(key)) << key;
  }
  EXPECT_LT(alone.series("loss").back(), alone.series("loss").front());
}

// The logs of all ranks together name the samples that the sampler gives the step, each as often as it does.
TEST_F(Layouts, TheRanksTogetherTakeTheSamplesOfTheStep) {
  if (world_->size() == 1) GTEST_SKIP() << "one rank's line is too long for the log, which then ends in ...";
  ASSERT_EQ(train(config({"run.name=run"})), ExitCode::success);
  const Sampler sampler(38, config().run.seed, 24, "test");
  std::vector<Remains> ranks;
  for (int rank = 0; rank < world_->size(); ++rank) ranks.push_back(remains("run", rank));
  for (std::size_t step = 0; step < 10; ++step) {
    std::multiset<Count> taken, wanted;
    for (const Remains& rank : ranks) {
      const std::vector<Count> samples = samples_in(rank.steps.at(step));
      EXPECT_EQ(samples.size(), 24u / ranks.size());
      taken.insert(samples.begin(), samples.end());
    }
    for (Count i = 0; i < 24; ++i) wanted.insert(sampler.sample_at(static_cast<Count>(step) * 24 + i));
    EXPECT_EQ(taken, wanted) << "step " << step;
  }
}

// Also with fewer micro-batches than ranks, when some ranks have nothing to do, and with a last one that is short.
TEST_F(Layouts, TheValidationLossIsThatOfOneRank) {
  RunConfig run = config();
  const RunData data = open_data(*world_, run, DataUse::evaluation);
  const auto model = make_model(run.model, 1, test_storage());
  const auto self = make_self_communicator("self");
  const ops::Exec exec{.device = test_device()};
  Arena activations("test.activations", test_device());
  for (const Count limit : {0, 1, 2, 3, 100}) {
    double first = 0.0;
    for (const Count micro_batch : {1, 2, 3, 8}) {
      SCOPED_TRACE(fmt::format("micro-batch {}, limit {}", micro_batch, limit));
      Hooks none;
      const Evaluation alone = evaluate({exec, none, activations, {}}, *model, *data.dataset, *self, micro_batch, limit);
      const Evaluation together = evaluate({exec, none, activations, {world_->rank(), world_->size()}}, *model, *data.dataset,
                                           *world_, micro_batch, limit);
      const Count samples = limit == 0 ? 4 : std::min<Count>(4, limit);
      EXPECT_EQ(alone.samples, samples);
      EXPECT_EQ(together.samples, samples);
      EXPECT_EQ(together.targets, samples * 8);
      EXPECT_EQ(alone.targets, samples * 8);
      // Sums in double precision of losses per micro-batch: the order of few sums alone differs.
      EXPECT_NEAR(together.loss, alone.loss, 1e-6 * alone.loss);
      EXPECT_GT(alone.loss, 1.0);
      if (first == 0.0) first = alone.loss;
      EXPECT_NEAR(alone.loss, first, 1e-6 * first) << "another micro-batch, the same samples";
    }
  }
}

// The samples that a validation takes are a matter of the run file, not of how a run is laid out: one step of a rate that changes
// nothing, and then the losses differ by rounding alone (fp32 products of other shapes: some 1e-7; ten times that is allowed).
TEST_F(Layouts, TheValidationLossIsTheSameForEveryMicroBatchAndLayout) {
  const Overrides common{
      "train.steps=1",           "train.global_batch=0",   "train.validation_samples=3", "optimizer.learning_rate=1e-12",
      "schedule.warmup_steps=0", "schedule.decay_steps=1", "checkpoint.every=0"};
  std::vector<std::string> layouts{"parallel.dp=0"};
  if (world_->size() % 2 == 0) layouts.insert(layouts.end(), {"parallel.pp=2", "parallel.tp=2", "parallel.cp=2"});
  for (const char* documents : {"joined", "separate"}) {
    double first = 0.0;
    for (const std::string& layout : layouts) {
      for (const char* micro_batch : {"1", "2", "6"}) {
        SCOPED_TRACE(fmt::format("{}, micro-batch {}, documents {}", layout, micro_batch, documents));
        Overrides overrides = common;
        overrides.insert(overrides.end(), {"run.name=run", layout, fmt::format("train.micro_batch={}", micro_batch),
                                           fmt::format("data.documents={}", documents)});
        ASSERT_EQ(train(config(overrides), ExistingRun::overwrite), ExitCode::success);
        const double loss = remains("run").series("validation_loss").at(0);
        if (first == 0.0) first = loss;
        EXPECT_NEAR(loss, first, 1e-6 * first);
      }
    }
  }
}

// Validations (every 4 steps) and saves (every 5; their time is in the next step's record) are no part of the rate.
TEST_F(Layouts, RatesAreOfTrainingAlone) {
  ASSERT_EQ(train(config({"run.name=run"})), ExitCode::success);
  world_->barrier();
  std::istringstream lines(text_of(folder_ / "run" / "metrics.jsonl"));
  double apart = 0.0;  // seconds
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    const auto& seconds = record.at("seconds");
    const double other = seconds.at("validation").get<double>() + seconds.at("checkpoint").get<double>();
    // The rate is taken when the step ends, the seconds a little later, with the record: never more tokens than that.
    const double tokens = record.at("tokens_per_second").get<double>() * (seconds.at("step").get<double>() - other);
    EXPECT_GE(tokens, 0.999 * record.at("tokens").get<double>()) << line;
    apart += other;
  }
  EXPECT_GT(apart, 0.0);
  world_->barrier();
}

}  // namespace
}  // namespace cohort::test
