// `cohort ckpt show`: what it prints of a checkpoint.
#include <nlohmann/json.hpp>

#include "checkpoint_fixture.hpp"
#include "commands/commands.hpp"

namespace cohort::test {
namespace {

class CkptCommand : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    const auto model = make_model();
    set_values(*model, 1);
    const Tensor& bias = model->find("blocks.0.attention.qkv.bias")->value;
    bias.zero();
    bias.f32()[0] = 3.0f;
    bias.f32()[1] = -4.0f;
    save_checkpoint(run_, *model, make_state(100));
  }

  std::string output(std::vector<std::string> words) {
    CLI::App app;
    Action action;
    add_ckpt_command(app, action);
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(action(), 0);
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }
};

TEST_F(CkptCommand, ShowsTensorsAndState) {
  const std::string text = output({"ckpt", "show", run_.string()});
  expect_mentions(text, {"step_00000100", "samples_seen", "1200", kModel, "/model/blocks/0/attention/qkv/bias", "[12]", "fp32",
                         "/optim/v/embedding/weight", "[7, 4]", "89 parameters"});
}

TEST_F(CkptCommand, Json) {
  const auto json = nlohmann::json::parse(output({"ckpt", "show", run_.string(), "--json"}));
  EXPECT_EQ(json.at("step"), 100);
  EXPECT_EQ(json.at("tensors").size(), 15u);
  bool found = false;
  for (const auto& tensor : json.at("tensors")) {
    if (tensor.at("name") != "/model/blocks/0/attention/qkv/bias") continue;
    found = true;
    EXPECT_EQ(tensor.at("norm"), 5.0);  // of 3 and -4
  }
  EXPECT_TRUE(found);
}

TEST_F(CkptCommand, RunFileAlone) {
  EXPECT_EQ(output({"ckpt", "show", (run_ / "checkpoints" / "step_00000100").string(), "--run-file"}), make_state(100).run_file);
}

TEST_F(CkptCommand, MissingCheckpoint) {
  expect_mentions(error_of(ExitCode::checkpoint, [&] { output({"ckpt", "show", (run_ / "nowhere").string()}); }), {"nowhere"});
  ::testing::internal::GetCapturedStdout();
}

}  // namespace
}  // namespace cohort::test
