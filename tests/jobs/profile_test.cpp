// Site profiles and what of them may stand in a bash script.
#include <gtest/gtest.h>

#include <fstream>

#include "jobs/shell_text.hpp"
#include "jobs/site_profile.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

class Profiles : public ::testing::Test {
 protected:
  SiteProfile read(const std::string& text, const std::string& name = "site.env") {
    write(text, name);
    return read_site_profile(folder_.path() / name, folder_.path());
  }
  void write(const std::string& text, const std::string& name) { std::ofstream(folder_.path() / name) << text; }
  // The message of the refusal.
  void refuses(const std::string& text, std::initializer_list<const char*> parts) {
    test::expect_error([&] { read(text); }, ExitCode::config, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Profiles, KeysExportsAndCommentsAreRead) {
  const SiteProfile site = read(
      "# about the site\n"
      "PARTITION=\"gpu\"   # queue\n"
      "QOS=\"\"\n"
      "NODES_MAX=\"12\"\n"
      "\n"
      "# why\n"
      "# in two lines\n"
      "export NCCL_IB_HCA=\"mlx5_0,mlx5_1\"\n"
      "export UCX_TLS=\"rc\"\n");
  EXPECT_EQ(site.name, "site");
  EXPECT_EQ(site.text("PARTITION"), "gpu");
  EXPECT_FALSE(site.says("QOS"));
  EXPECT_EQ(site.values.count("QOS"), 1u);
  EXPECT_EQ(site.values.count("ACCOUNT"), 0u);
  EXPECT_EQ(site.number("NODES_MAX"), 12);
  ASSERT_EQ(site.exports.size(), 2u);
  EXPECT_EQ(site.exports[0].value, "mlx5_0,mlx5_1");
  EXPECT_EQ(site.exports[0].comment, (std::vector<std::string>{"# why", "# in two lines"}));
  EXPECT_TRUE(site.exports[1].comment.empty());
}

TEST_F(Profiles, TakeTheRestFromTheirBase) {
  write("PARTITION=\"all\"\nTIME=\"10\"\n# old\nexport A=\"1\"\nexport B=\"2\"\n", "base.env");
  const SiteProfile site = read("BASE=\"base\"\nPARTITION=\"mine\"\n# new\nexport A=\"3\"\n");
  EXPECT_EQ(site.text("PARTITION"), "mine");
  EXPECT_EQ(site.text("TIME"), "10");
  ASSERT_EQ(site.exports.size(), 2u);
  EXPECT_EQ(site.exports[0].value, "3");
  EXPECT_EQ(site.exports[0].comment, (std::vector<std::string>{"# new"}));
  EXPECT_EQ(site.exports[1].value, "2");
  EXPECT_EQ(site.name, "site");
}

TEST_F(Profiles, RefuseWithFileAndLine) {
  refuses("\nPARTITON=\"gpu\"\n", {"site.env:2", "PARTITON", "did you mean PARTITION?"});
  refuses("PARTITION=gpu\n", {"site.env:1", "double quotes", "PARTITION=\"value\""});
  refuses("PARTITION = \"gpu\"\n", {"site.env:1"});
  refuses("PARTITION=\"gpu\n", {"site.env:1", "double quotes"});
  refuses("PARTITION=\"gpu\" QOS=\"x\"\n", {"site.env:1", "follows the value"});
  refuses("module load gcc\n", {"site.env:1", "not a line of a site profile"});
  refuses("QOS=\"a\"\nQOS=\"b\"\n", {"site.env:2", "line 1"});
  refuses("NODES_MAX=\"many\"\n", {"site.env:1", "NODES_MAX", "many"});
  refuses("NODES_MAX=\"-1\"\n", {"site.env:1", "-1"});
  refuses("QOS=\"a`id`\"\n", {"site.env:1", "'`'"});
  refuses("QOS=\"$(id)\"\n", {"site.env:1", "'('"});
  refuses("export A=\"1; rm\"\n", {"site.env:1", "';'"});
  refuses("QOS=\"a\"\nBASE=\"site\"\n", {"site.env:2", "BASE must be the first"});
  refuses("BASE=\"none\"\n", {"site.env:1", "none.env"});
  refuses("BASE=\"site\"\n", {"site.env:1", "circular"});
}

TEST_F(Profiles, TheCommandLineSetsKeys) {
  SiteProfile site = read("QOS=\"a\"\n");
  set_site_value(site, "QOS=b=c");
  EXPECT_EQ(site.text("QOS"), "b=c");
  test::expect_error([&] { set_site_value(site, "QOSS=b"); }, ExitCode::usage, {"--set QOSS=b", "did you mean QOS?"});
  test::expect_error([&] { set_site_value(site, "QOS"); }, ExitCode::usage, {"KEY=value"});
  test::expect_error([&] { set_site_value(site, "NODES_MAX=x"); }, ExitCode::usage, {"whole number"});
  test::expect_error([&] { set_site_value(site, "QOS=a\nb"); }, ExitCode::usage, {"QOS"});
}

TEST(ShellText, QuotesWhatBashWouldActOn) {
  EXPECT_EQ(shell_word("inputs/demo.toml"), "inputs/demo.toml");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_words({"--set", "a=b"}), "--set 'a=b'");
}

}  // namespace
}  // namespace cohort
