#include "comm/nccl_settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

// The environment of these tests: NCCL's file in a folder of its own, and no other setting.
class NcclSettings : public testing::Test {
 protected:
  void SetUp() override {
    for (const NcclSetting& setting : nccl_settings()) unsetenv(setting.name.c_str());
    file_ = folder_ / "nccl.conf";
    setenv("NCCL_CONF_FILE", file_.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"NCCL_CONF_FILE", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_IB_HCA"}) unsetenv(name);
  }
  void write(const std::string& text) { std::ofstream(file_) << text; }
  // Without the one of SetUp(), and those of the machine.
  std::vector<std::string> described() {
    std::vector<std::string> lines;
    for (const NcclSetting& setting : nccl_settings()) {
      const std::string line = describe(setting);
      if (setting.name != "NCCL_CONF_FILE" && line.find("/etc/nccl.conf") == std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_;
};

TEST_F(NcclSettings, TheEnvironmentComesBeforeFiles) {
  write("# a comment\nNCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5=1\nPATH=/bin\nNCCL_NOTHING\n");
  setenv("NCCL_DEBUG", "INFO", 1);
  EXPECT_EQ(described(),
            (std::vector<std::string>{"NCCL_DEBUG=INFO (environment)", "NCCL_DEBUG=WARN (" + file_.string() + ", hidden)",
                                      "NCCL_IB_HCA=mlx5=1 (" + file_.string() + ")"}));
}

TEST_F(NcclSettings, MessagesGoToAFileOfTheRank) {
  setenv("NCCL_DEBUG", "info", 1);
  const auto log = capture_nccl_messages(folder_ / "run 100%", 3);
  ASSERT_TRUE(log);
  EXPECT_EQ(*log, folder_ / "run 100%" / "logs" / "rank_3" / "nccl.log");
  EXPECT_TRUE(std::filesystem::is_directory(log->parent_path()));
  // NCCL would take %/ for one of its own marks.
  EXPECT_EQ(std::string(std::getenv("NCCL_DEBUG_FILE")), (folder_ / "run 100%%/logs/rank_3/nccl.log").string());
  EXPECT_EQ(described().back(), "NCCL_DEBUG_FILE=" + (folder_ / "run 100%%/logs/rank_3/nccl.log").string() + " (Cohort)");
}

TEST_F(NcclSettings, WhatTheUserChoseStays) {
  EXPECT_FALSE(capture_nccl_messages(folder_ / "run", 0));  // nobody asked for messages
  setenv("NCCL_DEBUG", "VERSION", 1);
  EXPECT_FALSE(capture_nccl_messages(folder_ / "run", 0));
  write("NCCL_DEBUG_FILE=/tmp/mine\n");
  setenv("NCCL_DEBUG", "TRACE", 1);
  EXPECT_FALSE(capture_nccl_messages(folder_ / "run", 0));
  EXPECT_EQ(std::getenv("NCCL_DEBUG_FILE"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  unsetenv("NCCL_DEBUG");
  write("NCCL_DEBUG=WARN\n");  // a file may ask for messages, too
  EXPECT_TRUE(capture_nccl_messages(folder_ / "run", 0));
}

}  // namespace
}  // namespace cohort
