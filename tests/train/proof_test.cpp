// The proof itself: it must accept every layout, and reject what is not the same training.
#include "train/proof.hpp"

#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class Proof : public TrainerTest {
 protected:
  static constexpr Count kSteps = 3;
  const RunConfig run_ = config({"run.name=proof", "parallel.data=bucketed"});
  RunConfig opened_ = run_;
  const RunData data_ = open_data(*world_, opened_, DataUse::training);
  const Tolerance tolerance_ = proof_tolerance(opened_.precision);

  ProofResult prove_layout(const Layout& layout) {
    return prove(opened_, layout, data_, *world_, losses_of_one_rank(opened_, data_, *world_, kSteps), tolerance_);
  }
};

TEST_F(Proof, AcceptsEveryLayout) {
  std::vector<std::string> refused;
  const std::vector<Layout> layouts = all_layouts(opened_, world_->size(), refused);
  const std::vector<double> curve = losses_of_one_rank(opened_, data_, *world_, kSteps);
  EXPECT_EQ(curve.size(), static_cast<std::size_t>(kSteps));
  EXPECT_FALSE(layouts.empty());
  for (const Layout& layout : layouts) {
    const ProofResult result = prove(opened_, layout, data_, *world_, curve, tolerance_);
    EXPECT_TRUE(result.equal()) << layout.name << ": " << result.differences.front().what;
    EXPECT_LT(result.curve, kDrift) << layout.name;
  }
}

// Another seed differs from the start, another rate in the weights after the first step, and other clipping there, too.
TEST_F(Proof, RejectsAnotherTraining) {
  const auto result_of = [&](const std::function<void(RunConfig&)>& change) {
    Layout layout = layout_from_words(opened_, "data=bucketed", world_->size());
    change(layout.config);
    return prove_layout(layout);
  };
  const ProofResult seed = result_of([](RunConfig& config) { config.run.seed += 1; });
  EXPECT_GT(seed.losses, tolerance_.value);
  ASSERT_FALSE(seed.differences.empty());
  EXPECT_EQ(seed.differences.front().what, "loss");
  EXPECT_EQ(seed.differences.front().step, 1);
  const ProofResult rate = result_of([](RunConfig& config) { config.optimizer.learning_rate *= 1.01; });
  ASSERT_FALSE(rate.differences.empty());
  EXPECT_EQ(rate.differences.front().step, 1);
  EXPECT_TRUE(rate.differences.front().what.starts_with("weight ")) << rate.differences.front().what;
  EXPECT_GT(result_of([](RunConfig& config) { config.optimizer.beta2 = 0.9; }).weights, 100 * kUpdateTolerance);
  EXPECT_GT(result_of([](RunConfig& config) { config.train.clip_norm = 0.01; }).weights, 100 * kUpdateTolerance);
}

// All, or none: the reference and every layout begin with the weights of run.initial_checkpoint.
TEST_F(Proof, BeginsWithTheWeightsOfACheckpoint) {
  const RunConfig before = config({"run.name=before"});
  ASSERT_EQ(train(before), ExitCode::success);
  opened_.run.initial_checkpoint = before.run.directory;
  Layout layout = layout_from_words(opened_, "data=zero3", world_->size());
  EXPECT_TRUE(prove_layout(layout).equal());
  layout.config.run.initial_checkpoint = "";
  const ProofResult random = prove_layout(layout);
  ASSERT_FALSE(random.differences.empty());
  EXPECT_EQ(random.differences.front().step, 1);
  EXPECT_EQ(random.differences.front().what, "loss");
}

TEST_F(Proof, LayoutsAreReadFromWords) {
  const Layout layout = layout_from_words(opened_, "data=zero3,wrap=model", world_->size());
  EXPECT_EQ(layout.config.parallel.data, "zero3");
  EXPECT_EQ(layout.config.parallel.wrap, "model");
  EXPECT_EQ(layout.config.train.global_batch, opened_.train.global_batch);
  EXPECT_EQ(layout.ranks, world_->size());
  EXPECT_EQ(layout_from_words(opened_, "dp=1", world_->size()).ranks, 1);
  EXPECT_ERROR(layout_from_words(opened_, "dp=64", world_->size()), ExitCode::config, "64 ranks");
  EXPECT_ERROR(layout_from_words(opened_, "dq=2", world_->size()), ExitCode::config, "parallel.dq");
  EXPECT_ERROR(layout_from_words(opened_, "data=zero9", world_->size()), ExitCode::config, "zero9");
}

}  // namespace
}  // namespace cohort::test
