// `cohort ckpt` in this process: what a command prints, and its exit code.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_fixture.hpp"
#include "commands/commands.hpp"

namespace cohort::test {

using Json = nlohmann::json;

class CkptCommandTest : public CheckpointTest {
 protected:
  static int run(std::vector<std::string> words) {
    CLI::App app;
    Action action;
    add_ckpt_command(app, action);
    words.insert(words.begin(), "ckpt");
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
    return action();
  }
  static std::string output(const std::vector<std::string>& words, int code = 0) {
    ::testing::internal::CaptureStdout();
    try {
      EXPECT_EQ(run(words), code);
    } catch (...) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }
  Json json(std::vector<std::string> words, int code = 0) {
    words.emplace_back("--json");
    return Json::parse(output(words, code));
  }
};

}  // namespace cohort::test
