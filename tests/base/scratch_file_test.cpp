// Files of numbers that are read and written in the background: what comes back, what is left behind, and what an error says.
#include "base/scratch_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <vector>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

namespace fs = std::filesystem;

// Files of this process may not grow beyond `bytes`, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(Bytes bytes) {
    std::signal(SIGXFSZ, SIG_IGN);  // else it would end the process
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{static_cast<rlim_t>(bytes), before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

class ScratchFileTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path path_ = folder_ / "scratch";
};

TEST_F(ScratchFileTest, BlocksComeBackWhateverTheOrder) {
  constexpr Bytes kBlock = 1 << 20, kBlocks = 7;
  ScratchFile file(path_, kBlocks * kBlock);
  std::vector<std::vector<std::uint8_t>> blocks;
  for (Bytes b = 0; b < kBlocks; ++b) blocks.emplace_back(kBlock, static_cast<std::uint8_t>(b + 1));
  std::vector<ScratchFile::Transfer> writes, reads;
  for (const Bytes b : {6, 0, 3, 1, 5, 2, 4})
    writes.push_back(file.write(b * kBlock, blocks[static_cast<std::size_t>(b)].data(), kBlock));
  for (ScratchFile::Transfer& write : writes) write.wait();
  std::vector<std::uint8_t> back(kBlocks * kBlock);
  for (Bytes b = kBlocks - 1; b >= 0; --b) reads.push_back(file.read(b * kBlock, back.data() + b * kBlock, kBlock));
  for (ScratchFile::Transfer& read : reads) {
    read.wait();
    read.wait();  // once is enough, twice does no harm
  }
  for (std::size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], i / kBlock + 1) << i;
}

TEST_F(ScratchFileTest, ItBeginsWithZerosAndIsGoneInTheEnd) {
  std::ofstream(path_) << "left by a process that was killed";
  {
    ScratchFile file(path_, 16);
    EXPECT_EQ(fs::file_size(path_), 16u);
    std::vector<char> back(16, 'x');
    file.read(0, back.data(), 16).wait();
    EXPECT_EQ(back, std::vector<char>(16, '\0'));
  }
  EXPECT_FALSE(fs::exists(path_));
  const ScratchFile empty(folder_ / "made" / "on the way" / "scratch", 0);
  EXPECT_EQ(fs::file_size(empty.path()), 0u);
}

// What was asked for is done before the file goes, although nobody waits.
TEST_F(ScratchFileTest, TransfersMayBeLeftAlone) {
  std::vector<char> memory(1 << 20, 'x');
  {
    ScratchFile file(path_, 1 << 20);
    file.write(0, memory.data(), 1 << 20);
    ScratchFile::Transfer replaced = file.read(0, memory.data(), 1);
    replaced = {};
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ScratchFileTest, TwoProcessesCannotShareOne) {
  const ScratchFile file(path_, 16);
  EXPECT_ERROR(ScratchFile(path_, 16), ExitCode::io, "in use", path_.c_str(), "another name or folder");
  EXPECT_TRUE(fs::exists(path_)) << "it is the first one's";
}

TEST_F(ScratchFileTest, AFileThatWasCutShortIsAnError) {
  ScratchFile file(path_, 64);
  fs::resize_file(path_, 40);
  std::vector<char> back(64);
  ScratchFile::Transfer good = file.read(0, back.data(), 40), bad = file.read(16, back.data(), 48);
  EXPECT_ERROR(bad.wait(), ExitCode::io, path_.c_str(), "read 24 bytes at offset 40", "truncated it");
  EXPECT_NO_THROW(good.wait());
}

TEST_F(ScratchFileTest, PlacesThatCannotBeWrittenAreRefused) {
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_ERROR(ScratchFile(folder_ / "file" / "scratch", 16), ExitCode::io, "file");
  fs::create_directory(folder_ / "folder");
  EXPECT_ERROR(ScratchFile(folder_ / "folder", 16), ExitCode::io, "folder", "directory");
  if (::geteuid() == 0) return;  // root may write anywhere
  fs::permissions(folder_ / "folder", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_ERROR(ScratchFile(folder_ / "folder" / "scratch", 16), ExitCode::io, "Permission denied", "may write to");
}

TEST_F(ScratchFileTest, ADiskThatIsTooSmallShowsAtOnce) {
  const FileSizeLimit limit(1 << 16);
  EXPECT_ERROR(ScratchFile(path_, 1 << 20), ExitCode::io, "reserve 1.0 MiB", path_.c_str(), "free", "larger disk");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ScratchFileTest, AWriteThatFailsShowsWhenItIsWaitedFor) {
  ScratchFile file(path_, 1 << 20);
  const std::vector<char> memory(1 << 20, 'x');
  const FileSizeLimit limit(1 << 16);
  ScratchFile::Transfer write = file.write(0, memory.data(), 1 << 20);
  EXPECT_ERROR(write.wait(), ExitCode::io, "write 983040 bytes at offset 65536", path_.c_str());
}

TEST_F(ScratchFileTest, BeyondTheEndIsABug) {
  ScratchFile file(path_, 16);
  char memory[16];
  EXPECT_ERROR(file.read(8, memory, 9), ExitCode::internal, "9 bytes at 8");
  EXPECT_ERROR(file.write(-1, memory, 1), ExitCode::internal, "1 bytes at -1");
}

}  // namespace
}  // namespace cohort::test
