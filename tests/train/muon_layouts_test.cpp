// Whole-matrix updates in every layout: as one rank makes them, and saved and resumed like any other state.
#include "support/expect_error.hpp"
#include "train/check_optimizer.hpp"
#include "train/proof.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class MuonLayouts : public TrainerTest {
 protected:
  static constexpr Count kSteps = 3;

  /// With the vocabulary of the data. // Collective over: world
  RunConfig opened(RunConfig run) const {
    open_data(*world_, run, DataUse::training);
    return run;
  }

  // An update is compared after Newton-Schulz, of gradients that are the layout's own, by the same products of the same shape on
  // both sides: so the allowance is that of AdamW (kUpdateTolerance).
  void prove_layouts(RunConfig run, const std::vector<Layout>& layouts) {
    const RunData data = open_data(*world_, run, DataUse::training);
    const Tolerance tolerance = proof_tolerance(run.precision);
    const std::vector<double> curve = losses_of_one_rank(run, data, *world_, kSteps);
    ASSERT_FALSE(layouts.empty());
    for (const Layout& layout : layouts) {
      const ProofResult result = prove(run, layout, data, *world_, curve, tolerance);
      EXPECT_TRUE(result.equal()) << layout.name << ": " << result.differences.front().what << " "
                                  << result.differences.front().difference;
      if (run.precision.policy == "fp32") {
        EXPECT_LT(result.curve, kDrift) << layout.name;
      }
    }
  }

  // What cuts matrices in each way, as far as so many ranks allow: blocks that begin anywhere, rows, columns, both, copies.
  std::vector<Layout> ways_to_cut(const RunConfig& run) const {
    std::vector<std::string> words{"data=zero2,wrap=model", "data=zero3,wrap=layer"};
    if (world_->size() % 2 == 0)
      words.insert(words.end(), {"tp=2,data=zero3", "tp=2,data=bucketed", "pp=2,data=zero1", "cp=2,data=zero1"});
    if (world_->size() == 4) words.insert(words.end(), {"data=zero3,shard_ranks=2", "pp=2,tp=2,data=bucketed"});
    std::vector<Layout> layouts;
    for (const std::string& one : words) layouts.push_back(layout_from_words(run, one, world_->size()));
    return layouts;
  }
  RunConfig muon(Overrides overrides) const {
    overrides.push_back("optimizer.kind=muon");
    return config(overrides);
  }
};

TEST_F(MuonLayouts, AreProvedEqualToOneRank) {
  const RunConfig run = opened(muon({"run.name=proof"}));
  std::vector<std::string> refused;
  prove_layouts(run, all_layouts(run, world_->size(), refused));
}

// Key/value heads that tensor-parallel ranks hold alike, and matrices of three shapes.
TEST_F(MuonLayouts, AreProvedEqualWithSharedHeads) {
  const RunConfig run =
      opened(llama_config({"run.name=proof", "model.kv_heads=1", "optimizer.kind=muon", "optimizer.newton_schulz_steps=3"}));
  prove_layouts(run, ways_to_cut(run));
}

// Groups cut segments into many runs: the tied table by Muon, of which two stages have a copy; some matrices by AdamW; other
// rates and decays.
TEST_F(MuonLayouts, AreProvedEqualWithGroups) {
  const RunConfig run =
      opened(muon({"run.name=proof",
                   "optimizer.groups=[{match=[\"*.up.weight\", \"positions.*\"], kind=\"adamw\", learning_rate_factor=0.5}, "
                   "{match=[\"embedding.weight\"], kind=\"muon\", momentum=0.8}, {match=[\"*.bias\"], weight_decay=0.2}]"}));
  prove_layouts(run, ways_to_cut(run));
}

TEST_F(MuonLayouts, AreProvedEqualIn16Bits) {
  for (const char* policy : {"precision.policy=bf16", "precision.policy=fp16"}) {
    const RunConfig run = opened(muon({"run.name=proof", policy}));
    std::vector<Layout> layouts;
    for (const char* words : {"data=zero1", "data=zero3"}) layouts.push_back(layout_from_words(run, words, world_->size()));
    prove_layouts(run, layouts);
  }
}

// Another momentum shows from the second step on, other iterations at once.
TEST_F(MuonLayouts, TheProofSeesAnotherUpdate) {
  RunConfig run = muon({"run.name=proof"});
  const RunData data = open_data(*world_, run, DataUse::training);
  const std::vector<double> curve = losses_of_one_rank(run, data, *world_, kSteps);
  const auto weights = [&](const std::string& key, const KeyValue& value) {
    Layout layout = layout_from_words(run, "data=zero2", world_->size());
    layout.config.optimizer.own[key] = value;
    return prove(run, layout, data, *world_, curve, proof_tolerance(run.precision)).weights;
  };
  EXPECT_GT(weights("momentum", 0.9), 100 * kUpdateTolerance);
  EXPECT_GT(weights("newton_schulz_steps", Count{4}), 100 * kUpdateTolerance);
}

TEST_F(MuonLayouts, CheckpointsHoldTheSlotsOfEachOptimizer) {
  ASSERT_EQ(train(muon({"run.name=run", "parallel.data=zero2"})), ExitCode::success);
  const auto tensors = remains("run").tensors;
  const auto has = [&](const std::string& name) { return tensors.contains(name); };
  EXPECT_TRUE(has("/optim/momentum/blocks/0/attention/query/weight"));
  EXPECT_FALSE(has("/optim/m/blocks/0/attention/query/weight"));
  EXPECT_FALSE(has("/optim/v/blocks/0/attention/query/weight"));
  EXPECT_TRUE(has("/optim/m/blocks/0/attention/query/bias"));
  EXPECT_TRUE(has("/optim/v/embedding/weight"));
  EXPECT_FALSE(has("/optim/momentum/embedding/weight"));
}

TEST_F(MuonLayouts, GoOnBitForBitAndInAnyOther) {
  std::vector<Overrides> layouts{{"parallel.data=zero1"}, {"parallel.data=zero3"}, {"parallel.data=bucketed"}};
  if (world_->size() % 2 == 0) {
    layouts.push_back({"parallel.tp=2", "parallel.data=zero1"});
    layouts.push_back({"parallel.pp=2", "train.micro_batch=3"});
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(layouts[i].front());
    const auto run = [&](const std::string& name, const Overrides& layout, const std::string& steps, ExistingRun existing) {
      Overrides all{fmt::format("run.name={}-{}", name, i), "train.steps=" + steps};
      all.insert(all.end(), layout.begin(), layout.end());
      ASSERT_EQ(train(muon(all), existing), ExitCode::success);
    };
    run("ten", layouts[i], "10", ExistingRun::refuse);
    run("twice", layouts[i], "5", ExistingRun::refuse);
    run("twice", layouts[i], "10", ExistingRun::resume);
    run("other", layouts[i], "5", ExistingRun::refuse);
    run("other", layouts[(i + 1) % layouts.size()], "10", ExistingRun::resume);
    const Remains ten = remains(fmt::format("ten-{}", i)), other = remains(fmt::format("other-{}", i));
    EXPECT_EQ(remains(fmt::format("twice-{}", i)).tensors, ten.tensors);
    const std::vector<double> losses = other.series("loss"), wanted = ten.series("loss");
    ASSERT_EQ(losses.size(), wanted.size());
    for (std::size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(losses[step], wanted[step], kDrift * wanted[step]) << step;
  }
}

// A checkpoint of another optimizer is another training: refused, and accepted changes lack the slots.
TEST_F(MuonLayouts, AnotherOptimizerDoesNotGoOn) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5"})), ExitCode::success);
  EXPECT_ERROR(train(muon({"run.name=run"}), ExistingRun::resume), ExitCode::checkpoint, "momentum");
  EXPECT_ERROR(train(config({"run.name=run", "optimizer.groups=[{match=[\"*.bias\"], weight_decay=0.1}]"}), ExistingRun::resume),
               ExitCode::config, "optimizer.groups", "*.bias");
}

TEST_F(MuonLayouts, PatternsThatMatchNothingAreFoundBeforeTheWork) {
  EXPECT_ERROR(check_optimizer(muon({"optimizer.groups=[{match=[\"blokc*\"]}]"})), ExitCode::config, "--set optimizer.groups",
               "blokc*", "matches no parameter");
  EXPECT_EQ(check_optimizer(config()), "");
  EXPECT_TRUE(check_optimizer(muon({})).starts_with("adamw: ")) << check_optimizer(muon({}));
}

}  // namespace
}  // namespace cohort::test
