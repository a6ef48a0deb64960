// What the ranks of a layout hold, known without running it; and checkpoints written again by that knowledge: to the byte what
// the ranks would have written, and for training as good as the original.
#include "checkpoint/load/collective.hpp"
#include "checkpoint/write/rewrite.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "support/expect_error.hpp"
#include "train/precision.hpp"
#include "train/proof.hpp"
#include "train/resume.hpp"
#include "train/save_options_of.hpp"
#include "train/shards_of_rank.hpp"
#include "train/train_step.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class Reshard : public TrainerTest {
 protected:
  RunConfig opened(RunConfig config) const {
    open_data(*world_, config, DataUse::training);
    return config;
  }

  /// Every layout of so many ranks, and some with options that all_layouts() leaves out.
  std::vector<Layout> layouts_of(const RunConfig& run, int ranks) const {
    std::vector<std::string> refused;
    std::vector<Layout> layouts = all_layouts(run, ranks, refused);
    for (const char* words : {"data=zero3,wrap=layer", "data=zero2,wrap=model", "data=zero1,wrap=layer"})
      layouts.push_back(layout_from_words(run, words, ranks));
    std::erase_if(layouts, [&](const Layout& layout) { return layout.ranks != ranks; });
    return layouts;
  }

  Mesh mesh_of(const RunConfig& config) const {
    return Mesh(*world_, mesh_shape_of(config.parallel), device_of(config), config.device.share);
  }

  /// Rank 0 writes the checkpoint of run `from` again, in the files of the layout. // Collective over: world
  void reshard(const std::string& from, const std::string& to, const Layout& layout) const {
    world_->barrier();
    if (root()) {
      const CheckpointReader source(resolve_checkpoint(folder_ / from));
      const std::string model = describe_model(layout.config.model);
      reshard_checkpoint(source, folder_ / to,
                         {layout.ranks, [&](int rank) { return shards_of_rank(layout.config, rank); }, model},
                         save_options_of(layout.config.checkpoint).storage);
    }
    world_->barrier();
  }

  /// The run inside the checkpoint of run `from`, in another layout, as `cohort ckpt reshard` gets it.
  Layout layout_inside(const std::string& from, const std::string& words, int ranks) const {
    const TrainingState state = read_training_state_collectively(*world_, folder_ / from);
    return layout_from_words(parse_run_file(state.run_file, "inside"), words, ranks);
  }
};

void expect_same_shards(const std::vector<StateShard>& declared, const std::vector<StateShard>& held) {
  ASSERT_EQ(declared.size(), held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(declared[i].tensor, held[i].tensor);
    EXPECT_EQ(declared[i].order, held[i].order) << held[i].tensor;
    EXPECT_TRUE(declared[i].part == held[i].part) << held[i].tensor;
    EXPECT_EQ(declared[i].writes, held[i].writes) << held[i].tensor;
    EXPECT_EQ(declared[i].writes_share, held[i].writes_share) << held[i].tensor;
  }
}

TEST_F(Reshard, WhatARankHoldsIsKnownWithoutIt) {
  std::size_t compared = 0;
  for (const RunConfig& run :
       {opened(config()), opened(llama_config()), opened(mlp_config()), opened(llama_config({"optimizer.kind=muon"}))}) {
    for (const Layout& layout : layouts_of(run, world_->size())) {
      SCOPED_TRACE(run.model.kind + ": " + layout.name);
      const Mesh mesh = mesh_of(layout.config);
      const TrainStep train_step(layout.config, mesh);
      expect_same_shards(shards_of_rank(layout.config, world_->rank()), train_step.shards());
      ++compared;
    }
  }
  EXPECT_GE(compared, world_->size() == 1 ? 12u : 20u);
}

// The same content gives the same bytes: elements, checksums, names, the manifest, the index.
TEST_F(Reshard, TheFilesAreThoseThatTheRanksWrite) {
  for (const std::string weights : {"fp32", "bf16"}) {
    const RunConfig run = opened(config({"run.name=" + weights, "train.steps=5", "checkpoint.weights=" + weights}));
    ASSERT_EQ(train(run), ExitCode::success);
    std::vector<Layout> layouts = layouts_of(run, world_->size());
    // Rounded weights have a second part each; that does not depend on the layout.
    if (weights != "fp32") std::erase_if(layouts, [](const Layout& layout) { return layout.config.parallel.data != "zero3"; });
    ASSERT_FALSE(layouts.empty());
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.name);
      const Mesh mesh = mesh_of(layout.config);
      TrainStep train_step(layout.config, mesh);
      const TrainingState state =
          load_shards(*world_, folder_ / weights, train_step.shards(), describe_model(layout.config.model));
      SaveOptions options = save_options_of(layout.config.checkpoint);
      options.form = CheckpointForm::per_rank;
      const fs::path wanted = save_shards(*world_, folder_ / "by_ranks", train_step.shards(), state, options);
      reshard(weights, "by_tool", layout);
      if (!root()) continue;
      const fs::path made = folder_ / "by_tool" / "checkpoints" / wanted.filename();
      for (const auto& entry : fs::directory_iterator(wanted)) {
        const fs::path name = entry.path().filename();
        EXPECT_TRUE(text_of(entry.path()) == text_of(made / name)) << name << " differs";
      }
      EXPECT_EQ(std::distance(fs::directory_iterator(made), {}), std::distance(fs::directory_iterator(wanted), {}));
      CheckpointReader(made).verify();
    }
  }
}

// A layout of more ranks than there are here cannot be run; its files still hold everything once, and a run here goes on from
// them.
TEST_F(Reshard, TrainingGoesOnBitForBitFromTheFilesOfAnyLayout) {
  const std::string form = "checkpoint.form=per_rank";
  ASSERT_EQ(train(config({"run.name=original", "train.steps=5", form, "parallel.data=zero2"})), ExitCode::success);
  std::vector<Overrides> runs{{"parallel.data=zero3"}, {"parallel.data=bucketed"}};
  if (world_->size() % 2 == 0) {
    runs.push_back({"parallel.tp=2", "parallel.data=zero1"});
    runs.push_back({"parallel.pp=2", "train.micro_batch=3"});
  }
  const std::vector<std::pair<std::string, int>> layouts{{"dp=3,data=zero3", 3},
                                                         {"dp=2,tp=2,pp=2,data=zero1", 8},
                                                         {"dp=6,cp=2,data=zero3,shard_ranks=3,wrap=layer", 12},
                                                         {"dp=1", 1}};
  for (std::size_t i = 0; i < runs.size(); ++i) {  // each from every other of them, to save time
    SCOPED_TRACE(runs[i].front());
    const auto go_on = [&](const std::string& name) {
      Overrides all{"run.name=" + name, form};
      all.insert(all.end(), runs[i].begin(), runs[i].end());
      EXPECT_EQ(train(config(all), ExistingRun::resume), ExitCode::success);
      return remains(name).tensors;
    };
    const std::string copy = fmt::format("copy-{}", i);
    if (root()) {
      fs::create_directories(folder_ / copy);
      fs::copy(folder_ / "original" / "checkpoints", folder_ / copy / "checkpoints", fs::copy_options::recursive);
    }
    world_->barrier();
    const auto wanted = go_on(copy);
    for (std::size_t l = i % 2; l < layouts.size(); l += 2) {
      const auto& [words, ranks] = layouts[l];
      SCOPED_TRACE(words);
      const std::string name = fmt::format("resharded-{}-{}", i, l);
      const Layout layout = layout_inside("original", words, ranks);
      EXPECT_EQ(layout.ranks, ranks);
      reshard("original", name, layout);
      EXPECT_EQ(go_on(name), wanted);
    }
    const std::string name = fmt::format("consolidated-{}", i);
    if (root()) {
      const CheckpointReader source(resolve_checkpoint(folder_ / "original"));
      consolidate_checkpoint(source, folder_ / name, {.model_dtype = DType::bf16});
    }
    world_->barrier();
    EXPECT_EQ(go_on(name), wanted);
  }
}

TEST_F(Reshard, ALayoutThatDoesNotFitIsRefused) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=3"})), ExitCode::success);
  EXPECT_ERROR(layout_inside("run", "dp=1,tp=4", 4), ExitCode::config, "heads");
  EXPECT_ERROR(layout_inside("run", "dp=1,pp=3", 3), ExitCode::config, "layers");
  EXPECT_ERROR(layout_inside("run", "dp=5", 5), ExitCode::config, "24");
}

}  // namespace
}  // namespace cohort::test
