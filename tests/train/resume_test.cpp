// Saving, resuming, and what may change in between.
#include <csignal>
#include <fstream>

#include "runtime/signals.hpp"
#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

using Resume = TrainerTest;

void expect_same(const Remains& a, const Remains& b) {
  EXPECT_EQ(a.tensors, b.tensors);
  EXPECT_EQ(a.metrics, b.metrics);
  EXPECT_EQ(a.steps, b.steps);
}

TEST_F(Resume, FiveStepsAndFiveMoreAreTenBitForBit) {
  ASSERT_EQ(train(config({"run.name=ten"})), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=twice", "train.steps=5"})), ExitCode::success);
  const Remains half = remains("twice");
  ASSERT_EQ(train(config({"run.name=twice"}), ExistingRun::resume), ExitCode::success);
  const Remains ten = remains("ten");
  Remains twice = remains("twice");
  EXPECT_NE(half.tensors, ten.tensors);
  // A run's last step has a validation, so the shorter run has one more.
  for (const char* key : {"validation_loss", "validation_bits_per_byte"}) twice.metrics.at(4).erase(key);
  expect_same(twice, ten);
  EXPECT_EQ(ten.metrics.size(), 10u);
  EXPECT_EQ(ten.steps.size(), 10u);
  EXPECT_EQ(ten.series("validation_loss").size(), 3u);
  EXPECT_EQ(ten.tensors.count("/optim/v/embedding/weight"), 1u);
}

// In shards, too; and a checkpoint of one layout is one of every layout: the same tensors, from which any other goes on.
TEST_F(Resume, ShardsGoOnBitForBitAndInAnyOtherLayout) {
  const std::vector<std::string> strategies{"zero1", "zero2", "zero3", "bucketed"};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string data = "parallel.data=" + strategies[i];
    const std::string& name = strategies[i];
    SCOPED_TRACE(name);
    ASSERT_EQ(train(config({"run.name=" + name, data})), ExitCode::success);
    ASSERT_EQ(train(config({"run.name=" + name + "-twice", data, "train.steps=5"})), ExitCode::success);
    ASSERT_EQ(train(config({"run.name=" + name + "-twice", data}), ExistingRun::resume), ExitCode::success);
    EXPECT_EQ(remains(name + "-twice").tensors, remains(name).tensors);
    ASSERT_EQ(train(config({"run.name=" + name + "-other", data, "train.steps=5"})), ExitCode::success);
    ASSERT_EQ(train(config({"run.name=" + name + "-other", "parallel.data=" + strategies[i + 1]}), ExistingRun::resume),
              ExitCode::success);
    const std::vector<double> losses = remains(name + "-other").series("loss"), wanted = remains(name).series("loss");
    ASSERT_EQ(losses.size(), wanted.size());
    for (std::size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(losses[step], wanted[step], kDrift * wanted[step]) << step;
  }
}

// So do parts of matrices and stages of a pipeline, and whole models go on from them.
TEST_F(Resume, PartsGoOnBitForBitAndAsAWhole) {
  if (world_->size() % 2 != 0) GTEST_SKIP() << "the model's two heads and layers are for even numbers of ranks";
  const std::vector<Overrides> layouts{
      {"parallel.tp=2", "parallel.sequence=true", "parallel.data=zero1"},
      {"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"},
      {"parallel.pp=2", "train.micro_batch=3"},
      {"parallel.pp=2", "train.micro_batch=3", "parallel.data=zero1", "parallel.schedule=gpipe"}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(layouts[i].front());
    const auto run = [&](const std::string& name, const Overrides& layout, const std::string& steps, ExistingRun existing) {
      Overrides all{fmt::format("run.name={}-{}", name, i), "train.steps=" + steps};
      all.insert(all.end(), layout.begin(), layout.end());
      ASSERT_EQ(train(config(all), existing), ExitCode::success);
    };
    run("ten", layouts[i], "10", ExistingRun::refuse);
    run("twice", layouts[i], "5", ExistingRun::refuse);
    run("twice", layouts[i], "10", ExistingRun::resume);
    run("other", layouts[i], "5", ExistingRun::refuse);
    run("other", {}, "10", ExistingRun::resume);
    const Remains ten = remains(fmt::format("ten-{}", i)), other = remains(fmt::format("other-{}", i));
    EXPECT_EQ(remains(fmt::format("twice-{}", i)).tensors, ten.tensors);
    const std::vector<double> losses = other.series("loss"), wanted = ten.series("loss");
    ASSERT_EQ(losses.size(), wanted.size());
    for (std::size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(losses[step], wanted[step], kDrift * wanted[step]) << step;
  }
}

// Blocks around the ring are a layout like others: a run takes them up, or leaves them, without being asked to allow it.
TEST_F(Resume, OverlapOfTensorParallelismMayChange) {
  if (world_->size() % 2 != 0) GTEST_SKIP() << "the model's two heads are for even numbers of ranks";
  const auto run = [&](const std::string& name, bool overlap, const char* steps, ExistingRun existing) {
    ASSERT_EQ(train(config({"run.name=" + name, fmt::format("train.steps={}", steps), "parallel.tp=2", "parallel.sequence=true",
                            fmt::format("parallel.tensor_overlap={}", overlap)}),
                    existing),
              ExitCode::success);
  };
  run("without", false, "10", ExistingRun::refuse);
  const std::vector<double> wanted = remains("without").series("loss");
  for (const bool first : {false, true}) {
    const std::string name = first ? "left" : "taken_up";
    run(name, first, "5", ExistingRun::refuse);
    run(name, !first, "10", ExistingRun::resume);
    const std::vector<double> losses = remains(name).series("loss");
    ASSERT_EQ(losses.size(), wanted.size());
    for (std::size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(losses[step], wanted[step], kDrift * wanted[step]) << name << ", step " << step;
  }
}

// The other kind of model and of data through the same loop.
TEST_F(Resume, TheMlpGoesOnBitForBitToo) {
  ASSERT_EQ(train(mlp_config({"run.name=ten"})), ExitCode::success);
  ASSERT_EQ(train(mlp_config({"run.name=twice", "train.steps=5"})), ExitCode::success);
  ASSERT_EQ(train(mlp_config({"run.name=twice"}), ExistingRun::resume), ExitCode::success);
  EXPECT_EQ(remains("twice").tensors, remains("ten").tensors);
  EXPECT_EQ(remains("twice").series("loss"), remains("ten").series("loss"));
  EXPECT_ERROR(train(mlp_config({"run.name=ten", "train.steps=20", "data.samples=40"}), ExistingRun::resume), ExitCode::config,
               "samples=40", "--allow-changes");
}

TEST_F(Resume, ARunOfTheSameLayoutHasTheSameBits) {
  ASSERT_EQ(train(config({"run.name=one"})), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=two"})), ExitCode::success);
  expect_same(remains("one"), remains("two"));
  ASSERT_EQ(train(config({"run.name=two"}), ExistingRun::overwrite), ExitCode::success);
  expect_same(remains("one"), remains("two"));
  ASSERT_EQ(train(config({"run.name=other", "run.seed=2"})), ExitCode::success);
  EXPECT_NE(remains("one").series("loss"), remains("other").series("loss"));
}

// A run that died behind step 5 has lines of later steps, the last one cut short.
TEST_F(Resume, AfterACrashEveryStepIsInTheMetricsOnce) {
  ASSERT_EQ(train(config({"run.name=ten"})), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=crashed"})), ExitCode::success);
  if (root()) {
    fs::remove_all(folder_ / "crashed" / "checkpoints" / "step_00000010");
    const std::string text = text_of(folder_ / "crashed" / "metrics.jsonl");
    std::ofstream(folder_ / "crashed" / "metrics.jsonl") << text.substr(0, text.size() - 30);
  }
  world_->barrier();
  ASSERT_EQ(train(config({"run.name=crashed"}), ExistingRun::resume), ExitCode::success);
  const Remains crashed = remains("crashed");
  EXPECT_EQ(crashed.tensors, remains("ten").tensors);
  EXPECT_EQ(crashed.metrics, remains("ten").metrics);
}

TEST_F(Resume, RefusesWhatWouldBendTheRunAndTakesItWhenAllowed) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5"})), ExitCode::success);
  if (root()) write_tokens("other.h5", 2);
  world_->barrier();
  const std::string other_data = "data.tokens=" + (folder_ / "other.h5").string();
  const std::vector<std::pair<Overrides, const char*>> changes{
      {{"schedule.decay_steps=20"}, "schedule.decay_steps"},
      {{"schedule.kind=linear"}, "schedule.kind"},
      {{"optimizer.learning_rate=0.02"}, "optimizer.learning_rate"},
      {{"optimizer.beta2=0.99"}, "optimizer.beta2"},
      {{"run.seed=2"}, "run.seed"},
      {{"train.global_batch=0", "train.accumulation=1"}, "train.global_batch"},
      {{"train.clip_norm=2.0"}, "train.clip_norm"},
      {{"model.dropout=0.2"}, "model.dropout"},
      {{"precision.policy=bf16"}, "precision.policy"},
      {{"data.documents=separate"}, "data.documents"},
      {{other_data}, "other.h5"},
  };
  for (const auto& [change, named] : changes) {
    SCOPED_TRACE(named);
    Overrides overrides{"run.name=run"};
    overrides.insert(overrides.end(), change.begin(), change.end());
    EXPECT_ERROR(train(config(overrides), ExistingRun::resume), ExitCode::config, named, "--allow-changes");
  }
  EXPECT_EQ(checkpoints("run"), std::vector<Count>{5}) << "a refused resume changes nothing";
  EXPECT_EQ(remains("run").metrics.size(), 5u);
  EXPECT_EQ(train(config({"run.name=run", "schedule.decay_steps=20", other_data}), ExistingRun::resume, true), ExitCode::success);
  EXPECT_EQ(remains("run").metrics.size(), 10u);
}

// Data is what is in the file and what its ids stand for, not the file's name.
TEST_F(Resume, ComparesDataByContentAndTokenizer) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5"})), ExitCode::success);
  if (root()) {
    fs::copy_file(folder_ / "tokens.h5", folder_ / "moved.h5");
    write_tokens("shifted.h5", 1, "bcdefghijklmnopqrstu!");  // the ids of tokens.h5, of other letters
  }
  world_->barrier();
  const auto with = [&](const char* file) { return config({"run.name=run", "data.tokens=" + (folder_ / file).string()}); };
  EXPECT_ERROR(train(with("shifted.h5"), ExistingRun::resume), ExitCode::config, "tokenizer: char, vocabulary=21",
               "--allow-changes");
  EXPECT_EQ(train(with("moved.h5"), ExistingRun::resume), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=ten"})), ExitCode::success);
  EXPECT_EQ(remains("run").tensors, remains("ten").tensors);
}

TEST_F(Resume, TakesWhatDoesNotChangeTheMathematics) {
  const auto naive = config({"run.name=run", "train.steps=5", "parallel.data=naive"});
  ASSERT_EQ(train(naive), ExitCode::success);
  EXPECT_EQ(train(config({"run.name=run", "parallel.data=hooks", "checkpoint.every=2", "log.level=info",
                          "model.activation_checkpointing=true", "model.checkpointed_layers=1", "model.activation_offload=true",
                          fmt::format("train.micro_batch={}", 24 / world_->size())}),
                  ExistingRun::resume),
            ExitCode::success);
}

TEST_F(Resume, RefusesAnotherModelEvenWhenChangesAreAllowed) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5"})), ExitCode::success);
  for (const char* change : {"model.width=32", "model.layers=1", "model.heads=4", "model.tied_head=false"}) {
    SCOPED_TRACE(change);
    EXPECT_ERROR(train(config({"run.name=run", change}), ExistingRun::resume, true), ExitCode::checkpoint, "another model",
                 "width=16", "run file inside the checkpoint");
  }
}

TEST_F(Resume, RefusesWhenThereIsNothingToDoOrNothingToGoOnFrom) {
  EXPECT_ERROR(train(config({"run.name=none"}), ExistingRun::resume), ExitCode::checkpoint, "no complete checkpoint", "--resume");
  ASSERT_EQ(train(config({"run.name=run"})), ExitCode::success);
  EXPECT_ERROR(train(config({"run.name=run"})), ExitCode::usage, "--resume", "--overwrite", "run.name");
  EXPECT_ERROR(train(config({"run.name=run"}), ExistingRun::resume), ExitCode::config, "10", "train.steps");
  EXPECT_EQ(train(config({"run.name=new", "train.steps=5"}), ExistingRun::resume_if_any), ExitCode::success);
  EXPECT_EQ(train(config({"run.name=new"}), ExistingRun::resume_if_any), ExitCode::success);
  EXPECT_EQ(checkpoints("new"), (std::vector<Count>{5, 10}));
}

// A run with checkpoints of steps 2, 4, ..., 10, whose newest has a flipped bit.
class FallBack : public TrainerTest {
 protected:
  void train_and_damage(const std::string& name, const Overrides& more = {}) {
    Overrides overrides{"run.name=" + name, "checkpoint.every=2"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    ASSERT_EQ(train(config(overrides)), ExitCode::success);
    if (root()) damage(folder_ / name / "checkpoints/step_00000010");
    world_->barrier();
  }
  // In the middle of its largest file, which is of elements.
  static void damage(const fs::path& checkpoint) {
    fs::path largest;
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    std::string bytes = text_of(largest);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 16);
    std::ofstream(largest, std::ios::binary) << bytes;
  }
  RunConfig longer(const std::string& name, const Overrides& more = {}) const {
    Overrides overrides{"run.name=" + name, "checkpoint.every=2", "train.steps=12"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return config(overrides);
  }
};

TEST_F(FallBack, RefusesByDefaultAndNamesTheWaysOut) {
  train_and_damage("run");
  EXPECT_ERROR(train(longer("run"), ExistingRun::resume), ExitCode::checkpoint, "step_00000010");
  try {
    train(longer("run"), ExistingRun::resume);
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool names_all = message.find("2, 4, 6, 8") != std::string::npos &&
                           message.find("--resume-from") != std::string::npos &&
                           message.find("checkpoint.fallback=previous") != std::string::npos;
    EXPECT_EQ(names_all, root()) << message;  // rank 0 alone prints it, and has looked
  }
  EXPECT_EQ(checkpoints("run"), (std::vector<Count>{2, 4, 6, 8, 10})) << "a refusal changes nothing";
}

// Twelve steps from the one before, bit for bit; the damaged step is not lost, and each step is in the metrics once.
TEST_F(FallBack, GoesOnFromTheNewestThatIsSound) {
  for (const char* form : {"consolidated", "per_rank"}) {
    SCOPED_TRACE(form);
    const std::string name = form, how = fmt::format("checkpoint.form={}", form);
    train_and_damage(name, {how});
    ASSERT_EQ(train(longer(name, {how, "checkpoint.fallback=previous"}), ExistingRun::resume_if_any), ExitCode::success);
    ASSERT_EQ(train(longer(name + "-whole", {how})), ExitCode::success);
    const Remains run = remains(name), whole = remains(name + "-whole");
    EXPECT_EQ(run.tensors, whole.tensors);
    EXPECT_EQ(run.series("step"), whole.series("step"));
    EXPECT_EQ(run.series("loss"), whole.series("loss"));
    EXPECT_EQ(checkpoints(name), (std::vector<Count>{2, 4, 6, 8, 10, 12}));
    const fs::path aside = folder_ / name / "checkpoints/set_aside";
    EXPECT_TRUE(fs::exists(aside / "step_00000010/manifest.json"));
    EXPECT_TRUE(fs::exists(aside / "metrics_beyond_step_00000008.jsonl"));
    const std::string log = text_of(folder_ / name / "logs" / fmt::format("rank_{}", world_->rank()) / "train.log");
    EXPECT_NE(log.find("warning"), std::string::npos);
    EXPECT_NE(log.find("step_00000010 cannot be loaded"), std::string::npos);
  }
}

TEST_F(FallBack, OfAnotherModelIsNotDamage) {
  ASSERT_EQ(train(config({"run.name=run", "checkpoint.every=5"})), ExitCode::success);
  EXPECT_ERROR(train(longer("run", {"checkpoint.fallback=previous", "model.width=32"}), ExistingRun::resume),
               ExitCode::checkpoint, "step_00000010", "another model");
  EXPECT_EQ(checkpoints("run"), (std::vector<Count>{5, 10}));
}

TEST_F(FallBack, NothingSoundIsNoFreshStart) {
  train_and_damage("run", {"checkpoint.keep=1"});
  EXPECT_ERROR(train(longer("run", {"checkpoint.fallback=previous"}), ExistingRun::resume_if_any), ExitCode::checkpoint,
               "step_00000010");
  EXPECT_EQ(checkpoints("run"), std::vector<Count>{10});
}

TEST_F(FallBack, ResumesFromTheStepThatIsNamed) {
  ASSERT_EQ(train(config({"run.name=run", "checkpoint.every=2"})), ExitCode::success);
  const Remains before = remains("run");
  ASSERT_EQ(train(config({"run.name=run", "checkpoint.every=5"}), ExistingRun::resume_from, false, "4"), ExitCode::success);
  EXPECT_EQ(checkpoints("run"), (std::vector<Count>{2, 4, 5, 10}));
  EXPECT_EQ(remains("run").tensors, before.tensors);
  EXPECT_EQ(remains("run").series("step"), before.series("step"));
  for (const char* step : {"step_00000006", "step_00000008", "step_00000010"})
    EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/set_aside" / step / "manifest.json")) << step;
  EXPECT_ERROR(train(config({"run.name=run"}), ExistingRun::resume_from, false, "7"), ExitCode::checkpoint, "2, 4, 5, 10");
  // Twice to one place.
  ASSERT_EQ(train(config({"run.name=run"}), ExistingRun::resume_from, false, "5"), ExitCode::success);
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/set_aside/step_00000010.2/manifest.json"));
  // From another run into a new folder; a folder with checkpoints of its own does not take it.
  const std::string path = (folder_ / "run/checkpoints/step_00000004").string();
  ASSERT_EQ(train(config({"run.name=branch"}), ExistingRun::resume_from, false, path), ExitCode::success);
  EXPECT_EQ(remains("branch").tensors, before.tensors);
  EXPECT_EQ(checkpoints("branch"), (std::vector<Count>{5, 10}));
  EXPECT_ERROR(train(config({"run.name=branch"}), ExistingRun::resume_from, false, path), ExitCode::usage, "5, 10");
}

// What may be on its way from another disk is neither passed over nor replaced.
TEST_F(FallBack, AStepWithoutManifestIsWaitedFor) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5"})), ExitCode::success);
  const fs::path coming = folder_ / "run/checkpoints/step_00000010";
  if (root()) {
    fs::create_directories(coming);
    std::ofstream(coming / "model.h5") << "gigabytes";
  }
  world_->barrier();
  for (const ExistingRun existing : {ExistingRun::resume, ExistingRun::resume_if_any})
    EXPECT_ERROR(train(config({"run.name=run"}), existing), ExitCode::checkpoint, "step_00000010", "manifest.json",
                 "--resume-from 5");
  EXPECT_ERROR(train(config({"run.name=run"}), ExistingRun::overwrite), ExitCode::checkpoint, "step_00000010", "manifest.json");
  EXPECT_EQ(text_of(coming / "model.h5"), "gigabytes");
  ASSERT_EQ(train(config({"run.name=run", "checkpoint.fallback=previous"}), ExistingRun::resume), ExitCode::success);
  EXPECT_EQ(text_of(folder_ / "run/checkpoints/set_aside/step_00000010/model.h5"), "gigabytes");
  EXPECT_EQ(checkpoints("run"), (std::vector<Count>{5, 10}));
}

// A decay that nobody set: more steps are more steps of the same run.
TEST_F(Resume, ARunThatIsExtendedKeepsItsDecay) {
  const std::string unset = "schedule.decay_steps=0";
  ASSERT_EQ(train(config({"run.name=whole", "train.steps=10", "schedule.decay_steps=6"})), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=run", "train.steps=6", unset})), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=run", "train.steps=10", unset}), ExistingRun::resume), ExitCode::success);
  EXPECT_EQ(remains("run").tensors, remains("whole").tensors);
  EXPECT_EQ(remains("run").series("learning_rate"), remains("whole").series("learning_rate"));
  EXPECT_NE(text_of(folder_ / "run/run.toml").find("decay_steps = 6"), std::string::npos);
  EXPECT_ERROR(train(config({"run.name=run", "train.steps=20", "schedule.decay_steps=20"}), ExistingRun::resume),
               ExitCode::config, "schedule.decay_steps: 6", "--allow-changes");
}

TEST_F(Resume, KeepsAsManyCheckpointsAsWasAskedFor) {
  ASSERT_EQ(train(config({"run.name=run", "checkpoint.every=2", "checkpoint.keep=2"})), ExitCode::success);
  EXPECT_EQ(checkpoints("run"), (std::vector<Count>{8, 10}));
  ASSERT_EQ(train(config({"run.name=none", "checkpoint.every=0", "checkpoint.at_end=false"})), ExitCode::success);
  EXPECT_EQ(checkpoints("none"), std::vector<Count>{});
}

// The signal comes to one rank alone; all must stop at the same step.
TEST_F(Resume, ASignalToOneRankStopsAll) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5"})), ExitCode::success);
  install_stop_signals();
  if (world_->rank() == world_->size() - 1) std::raise(SIGUSR1);
  EXPECT_EQ(train(config({"run.name=run"}), ExistingRun::resume), ExitCode::interrupted);
  clear_stop_request();
  EXPECT_EQ(checkpoints("run"), std::vector<Count>{5});
  EXPECT_EQ(train(config({"run.name=run"}), ExistingRun::resume), ExitCode::success);
  ASSERT_EQ(train(config({"run.name=ten"})), ExitCode::success);
  EXPECT_EQ(remains("run").tensors, remains("ten").tensors);
}

}  // namespace
}  // namespace cohort::test
