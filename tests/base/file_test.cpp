#include "base/file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;
using test::text_of;

TEST(ReadFile, ReturnsEveryByte) {
  const TemporaryFolder folder;
  std::string text(200000, 'x');  // more than one block of the reader
  text[100] = '\0';
  text[199999] = '\n';
  write_file_atomically(folder / "a", text);
  EXPECT_EQ(read_file(folder / "a"), text);
  write_file_atomically(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
}

TEST(ReadFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read_file(folder / "none", "run file"), ExitCode::io, "run file", "none", "No such file");
  EXPECT_ERROR(read_file(folder.path()), ExitCode::io, "is a directory");
}

TEST(ReadFile, SaysThatThePermissionIsMissing) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "secret", "x");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const uid_t user = ::geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);  // root may read everything
  }
  EXPECT_ERROR(read_file(folder / "secret"), ExitCode::io, "Permission denied", "read permission");
  ASSERT_EQ(::seteuid(user), 0);
}

TEST(WriteFile, ReplacesAndLeavesNothingElse) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "a longer text");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(text_of(folder / "a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()), 1);
}

TEST(WriteFile, ReplacesAStaleTemporaryFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a.tmp", "left over by a crash, and longer than the new text");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(text_of(folder / "a"), "new");
}

TEST(WriteFile, AFailedWriteKeepsTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  std::filesystem::create_directory(folder / "a.tmp");  // the temporary name cannot be written
  EXPECT_ERROR(write_file_atomically(folder / "a", "new"), ExitCode::io, "a.tmp");
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_ERROR(write_file_atomically(folder / "no/such/folder/a", "x"), ExitCode::io, "No such file");
}

TEST(CommitFile, MovesFoldersToo) {
  const TemporaryFolder folder;
  make_folders(folder / "step.tmp/deep");
  write_file_atomically(folder / "step.tmp/deep/x", "1");
  commit_file(folder / "step.tmp", folder / "step");
  EXPECT_EQ(text_of(folder / "step/deep/x"), "1");
  EXPECT_FALSE(std::filesystem::exists(folder / "step.tmp"));
  EXPECT_ERROR(commit_file(folder / "none", folder / "b"), ExitCode::io, "none");
}

TEST(MakeFolders, AcceptsWhatExistsAndRefusesAFile) {
  const TemporaryFolder folder;
  make_folders(folder / "a/b");
  make_folders(folder / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  write_file_atomically(folder / "file", "x");
  EXPECT_ERROR(make_folders(folder / "file"), ExitCode::io, "file");
  EXPECT_ERROR(make_folders(folder / "file/sub"), ExitCode::io, "file");
}

}  // namespace
}  // namespace cohort
