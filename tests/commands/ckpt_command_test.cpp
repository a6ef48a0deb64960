// `cohort ckpt`: what its commands print, and their exit codes.
#include <unistd.h>

#include "commands/ckpt_command_fixture.hpp"
#include "rundir/lock_file.hpp"

namespace cohort::test {
namespace {

class CkptCommand : public CkptCommandTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    model_ = make_model();
    set_values(*model_, 1);
    const Tensor& bias = model_->find("blocks.0.attention.qkv.bias")->value;
    bias.zero();
    bias.f32()[0] = 3.0f;
    bias.f32()[1] = -4.0f;
    save(run_, 100);
  }

  void save(const fs::path& run, Count step, const std::string& loss = "", const SaveOptions& options = {}) {
    TrainingState state = make_state(step);
    state.validation_loss = loss;
    save_checkpoint(run, *model_, state, options);
  }

  fs::path folder(Count step) const { return checkpoints_folder(run_) / step_name(step); }
  void damage_bias(const fs::path& file) {
    std::string bytes = read_all(file);
    const Tensor& bias = model_->find("blocks.0.attention.qkv.bias")->value;
    const std::size_t at = bytes.find(std::string(static_cast<const char*>(bias.raw()), static_cast<std::size_t>(bias.bytes())));
    ASSERT_NE(at, std::string::npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_all(file, bytes);
  }

  std::unique_ptr<ParameterRegistry> model_;
};

TEST_F(CkptCommand, ShowsTensorsAndState) {
  const std::string text = output({"show", run_.string()});
  expect_mentions(text, {"step_00000100", "samples_seen", "1200", kModel, "blocks/0/attention/qkv", "  bias", "[12]", "fp32",
                         "embedding/weight", "[7, 4]", "89 parameters; all checksums match"});
  const std::string fast = output({"show", run_.string(), "--fast"});
  expect_mentions(fast, {"embedding/weight", "elements not read"});
  EXPECT_EQ(fast.find("norm"), std::string::npos);
}

TEST_F(CkptCommand, ShowAsJson) {
  const Json shown = json({"show", run_.string()});
  EXPECT_EQ(shown.at("step"), 100);
  EXPECT_EQ(shown.at("tensors").size(), 15u);
  bool found = false;
  for (const auto& tensor : shown.at("tensors")) {
    if (tensor.at("name") != "/model/blocks/0/attention/qkv/bias") continue;
    found = true;
    EXPECT_EQ(tensor.at("norm"), 5.0);  // of 3 and -4
    EXPECT_EQ(tensor.at("min"), -4.0);
    EXPECT_EQ(tensor.at("zeros"), 10);
    EXPECT_EQ(tensor.at("parts").at(0).at("file"), "model.h5");
  }
  EXPECT_TRUE(found);
}

TEST_F(CkptCommand, ShowsTheTokenizer) {
  EXPECT_EQ(output({"show", run_.string(), "--tokenizer"}), make_state(100).tokenizer + "\n");
  expect_mentions(output({"show", run_.string(), "--fast"}), {"tokenizer", "char, vocabulary=4, crc32="});
  EXPECT_EQ(json({"show", run_.string(), "--fast"}).at("tokenizer").get<std::string>().find("char, vocabulary=4, crc32="), 0u);
  const fs::path manifest = folder(100) / kManifestFile;
  write_all(manifest, sealed(without_tokenizer(read_all(manifest))));
  EXPECT_EQ(output({"show", run_.string(), "--fast"}).find("tokenizer"), std::string::npos) << "one of before, of such data";
  expect_mentions(error_of(ExitCode::usage, [&] { run({"show", run_.string(), "--tokenizer"}); }), {"has no tokenizer"});
}

TEST_F(CkptCommand, EqualBlocksShareLines) {
  ParameterRegistry blocks;
  for (int i = 0; i < 11; ++i) blocks.declare(fmt::format("blocks.{}.mlp.weight", i), {2, 3}, {});
  blocks.declare("blocks.11.mlp.weight", {2, 4}, {});
  blocks.allocate(1);
  for (const auto& parameter : blocks.all()) {
    parameter->value.zero();
    parameter->value.f32()[0] = static_cast<float>(parameter->id);
  }
  save_checkpoint(run_, blocks, make_state(200));
  const std::string folded = output({"show", run_.string()});
  expect_mentions(folded, {"0..10/mlp/weight", "11 x [2, 3]", "0 .. 10", "11/mlp/weight"});
  EXPECT_EQ(folded.find(" 5/mlp"), std::string::npos);
  const std::string all = output({"show", run_.string(), "--all"});
  expect_mentions(all, {" 5/mlp/weight", " 10/mlp/weight"});
  EXPECT_EQ(all.find(".."), std::string::npos);
}

TEST_F(CkptCommand, OneTensorAndShards) {
  save(run_, 200, "", {.form = CheckpointForm::per_rank});
  const std::string text = output({"show", run_.string(), "--tensor", "blocks.0.*.bias"});
  expect_mentions(text, {"/model/blocks/0/attention/qkv/bias  fp32 [12], 12 elements", "rank_00000.h5", "norm", "83.3 %",
                         std::string(50, '#'), "/optim/m/blocks/0/attention/qkv/bias"});
  EXPECT_EQ(text.find("/weight"), std::string::npos);
  expect_mentions(output({"show", run_.string(), "--shards"}), {"rank_00000.h5: ", "/model/embedding/weight", "all", "28"});
  expect_mentions(error_of(ExitCode::usage,
                           [&] {
                             output({"show", run_.string(), "--tensor", "/model/temprature"});
                           }),
                  {"none of the 15 tensors", "the nearest is /model/temperature"});
}

TEST_F(CkptCommand, RunFileAlone) { EXPECT_EQ(output({"show", folder(100).string(), "--run-file"}), make_state(100).run_file); }

TEST_F(CkptCommand, MissingCheckpoint) {
  const std::string nowhere = (run_ / "nowhere").string();
  for (const auto& words : std::vector<std::vector<std::string>>{{"show", nowhere},
                                                                 {"verify", nowhere},
                                                                 {"diff", nowhere, run_.string()},
                                                                 {"ls", nowhere},
                                                                 {"prune", nowhere, "--keep", "1"}}) {
    expect_mentions(error_of(ExitCode::checkpoint, [&] { output(words); }), {"nowhere"});
  }
}

TEST_F(CkptCommand, Ls) {
  save(run_, 200, "2.5", {.form = CheckpointForm::per_rank});
  save(run_, 300, "3.5");
  fs::create_directories(checkpoints_folder(run_) / temporary_name(400));
  write_all(folder(100) / kManifestFile, "{}");
  const std::string text = output({"ls", run_.string()});
  expect_mentions(text, {"per_rank", "2.5", "3 ranks: dp=3 pp=1 cp=1 tp=1", "best", "newest", "step_00000100 (damaged",
                         ".step_00000400.tmp (leftover", "a save in progress"});
  const Json runs = json({"ls", run_.string()});
  const auto listed = std::find_if(runs.begin(), runs.end(), [&](const Json& run) { return run.at("run") == run_.string(); });
  ASSERT_NE(listed, runs.end());
  const Json& entries = listed->at("entries");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].at("kind"), "damaged");
  EXPECT_EQ(entries[1].at("best"), true);
  EXPECT_EQ(entries[1].at("newest"), false);
  EXPECT_EQ(entries[2].at("newest"), true);
  EXPECT_EQ(entries[2].at("optimizer"), true);
  EXPECT_EQ(entries[3].at("kind"), "leftover");
}

TEST_F(CkptCommand, Verify) {
  save(run_, 200);
  expect_mentions(output({"verify", run_.string(), "--all"}), {"step_00000100: OK", "step_00000200: OK"});
  damage_bias(folder(100) / kModelFile);
  expect_mentions(output({"verify", run_.string()}), {"step_00000200: OK"});
  const Json verified = json({"verify", run_.string(), "--all"}, static_cast<int>(ExitCode::checkpoint));
  ASSERT_EQ(verified.size(), 2u);
  EXPECT_EQ(verified[0].at("sound"), false);
  ASSERT_EQ(verified[0].at("damage").size(), 1u);
  EXPECT_EQ(verified[0].at("damage")[0].at("dataset"), "/model/blocks/0/attention/qkv/bias");
  EXPECT_EQ(verified[1].at("sound"), true);
}

TEST_F(CkptCommand, SaysWhichPartsAreMissing) {
  save(run_, 200, "", {.form = CheckpointForm::per_rank});
  const fs::path index = folder(200) / kModelFile;
  const fs::path part = folder(200) / "rank_00000.h5";
  fs::rename(part, run_ / "part");
  const std::string what = "rank_00000.h5 (missing)";
  expect_mentions(output({"ls", run_.string()}), {"step_00000200 (damaged", "1 of its 2 files is missing or truncated: " + what});
  expect_mentions(output({"verify", run_.string()}, static_cast<int>(ExitCode::checkpoint)), {"DAMAGED", part.string()});
  // All but the elements is shown, in every way of showing, and it is an error.
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{{}, {"--fast"}, {"--shards"}, {"--json"}}) {
    words.insert(words.begin(), {"show", run_.string()});
    ::testing::internal::CaptureStdout();
    expect_mentions(error_of(ExitCode::checkpoint, [&] { run(words); }), {folder(200).string(), what});
    std::fflush(stdout);
    const std::string shown = ::testing::internal::GetCapturedStdout();
    expect_mentions(shown, {"embedding/weight"});
    EXPECT_EQ(shown.find("norm"), std::string::npos) << "figures of elements that are not there: " << shown;
  }
  // Cohort's own reader takes no fill value for data.
  const auto loaded = make_model();
  expect_mentions(error_of(ExitCode::checkpoint, [&] { load_checkpoint(folder(200), *loaded, kModel, kSlots); }),
                  {part.string(), "No such file"});
  // The index was copied alone: no manifest says what it lacks, but it does itself.
  fs::create_directories(run_ / "copy");
  fs::copy_file(index, run_ / "copy" / kModelFile);
  const auto copied = {"model.h5 is an index whose files are missing (rank_00000.h5)", "copy the whole folder"};
  for (const fs::path& path : {run_ / "copy", run_ / "copy" / kModelFile}) {
    for (const char* command : {"show", "verify"}) {
      expect_mentions(error_of(ExitCode::checkpoint, [&] { run({command, path.string()}); }), {copied.begin(), copied.end()});
    }
  }
  fs::remove(folder(200) / kManifestFile);
  expect_mentions(output({"ls", run_.string()}), {"step_00000200 (incomplete", "rank_00000.h5"});
}

TEST_F(CkptCommand, Diff) {
  const fs::path other = run_ / "other";
  save(other, 100, "2.5", {.form = CheckpointForm::per_rank});
  expect_mentions(output({"diff", run_.string(), other.string()}), {"validation_loss", "15 of 15 tensors equal"});
  model_->find("blocks.0.attention.qkv.bias")->value.f32()[2] = 0.125f;
  save(run_, 200);
  const int unequal = static_cast<int>(ExitCode::unequal);
  expect_mentions(output({"diff", folder(100).string(), folder(200).string()}, unequal),
                  {"/model/blocks/0/attention/qkv/bias", "0.125", "[2]", "samples_seen", "14 of 15 tensors equal"});
  save(other, 200);
  expect_mentions(output({"diff", run_.string(), other.string(), "--each-step"}), {"0 of 15", "equal at every step"});
  model_->find("temperature")->value.f32()[0] += 1.0f;
  save(other, 200);
  save(other, 300);
  const std::string text = output({"diff", run_.string(), other.string(), "--each-step"}, unequal);
  expect_mentions(text, {"1 of 15", "/model/temperature", "The runs differ from step 200 on"});
  EXPECT_EQ(text.find("300"), std::string::npos) << "only one run has step 300";
  const Json compared = json({"diff", folder(200).string(), other.string() + "/checkpoints/step_00000200"}, unequal);
  EXPECT_EQ(compared.at("unequal_tensors"), 1);
  EXPECT_EQ(compared.at("differences")[0].at("name"), "/model/temperature");
  const double rounding = 1e-6;  // of adding 1 in fp32
  EXPECT_NEAR(compared.at("differences")[0].at("largest_absolute").get<double>(), 1.0, rounding);
  output({"diff", folder(200).string(), other.string() + "/checkpoints/step_00000200", "--tolerance", "1.001"});
}

TEST_F(CkptCommand, RunFilesDifferByKey) {
  TrainingState state = make_state(100);
  state.run_file = "[run]\nname = \"test\"\n[optimizer]\nlearning_rate = 0.5\n";
  save_checkpoint(run_ / "a", *model_, state);
  state.run_file = "[optimizer]\nlearning_rate = 0.25\n[run]\nname = \"test\"  # in another order\n";
  save_checkpoint(run_ / "b", *model_, state);
  const Json compared = json({"diff", (run_ / "a").string(), (run_ / "b").string()});
  ASSERT_EQ(compared.at("run_file").size(), 1u) << compared.at("run_file");
  EXPECT_EQ(compared.at("run_file")[0].at("name"), "optimizer.learning_rate");
  EXPECT_EQ(compared.at("run_file")[0].at("a"), "0.5");
  EXPECT_EQ(compared.at("run_file")[0].at("b"), "0.25");
}

TEST_F(CkptCommand, Prune) {
  for (const auto& [step, loss] : std::vector<std::pair<Count, std::string>>{{200, "1"}, {300, "2"}, {400, "3"}, {500, "4"}})
    save(run_, step, loss);
  const fs::path leftover = checkpoints_folder(run_) / temporary_name(600);
  fs::create_directories(leftover);
  const std::vector<std::string> words{"prune", run_.string(), "--keep", "1", "--keep-every", "400", "--keep-best"};
  std::vector<std::string> dry = words;
  dry.emplace_back("--dry-run");
  expect_mentions(output(dry), {"the newest", "multiple of 400", "lowest validation loss", "2 would be deleted", "--leftovers"});
  EXPECT_EQ(steps().size(), 5u);
  expect_mentions(output(words), {"2 deleted"});
  EXPECT_EQ(steps(), (std::vector<Count>{200, 400, 500}));
  EXPECT_TRUE(fs::exists(leftover)) << "a save may be in progress";

  write_all(folder(500) / kManifestFile, "{}");
  fs::create_directories(checkpoints_folder(run_) / temporary_name(200));
  output({"prune", run_.string(), "--keep", "1"});
  EXPECT_EQ(steps(), (std::vector<Count>{200, 400, 500})) << "500 is damaged, 400 the newest intact one, 200 being saved again";
  output({"prune", run_.string(), "--keep", "1", "--leftovers"});
  EXPECT_EQ(steps(), (std::vector<Count>{400, 500}));
  EXPECT_EQ(entries(), 2u);
  EXPECT_FALSE(fs::exists(run_ / "lock"));
  expect_mentions(error_of(ExitCode::usage, [&] { output({"prune", run_.string(), "--keep", "0"}); }), {"--keep 0"});
}

TEST_F(CkptCommand, PruneLeavesASaveInProgressAlone) {
  const fs::path leftover = checkpoints_folder(run_) / temporary_name(600);
  fs::create_directories(leftover);
  const std::vector<std::string> words{"prune", run_.string(), "--keep", "1", "--leftovers"};
  const LockFile training(run_ / "lock", {"12", 0}, {});
  expect_mentions(error_of(ExitCode::launch, [&] { output(words); }),
                  {"SLURM job 12, process " + std::to_string(getpid()), "without --leftovers"});
  EXPECT_TRUE(fs::exists(leftover));
  std::vector<std::string> dry = words;
  dry.emplace_back("--dry-run");
  expect_mentions(output(dry), {"1 would be deleted"});
}

}  // namespace
}  // namespace cohort::test
