// Token files that are damaged, cut, overwritten, replaced or touched before and while they are read: each block is compared with
// its checksum when it is first read, and again once the file was written to. What is read is right, or is an error that names
// the file, the tokens and their bytes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "data/token_file.hpp"
#include "data/token_format.hpp"
#include "data/tokenizer_kind.hpp"
#include "hdf5/turn.hpp"
#include "observe/flight_recorder.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

constexpr Count kBlock = token_format::kBlock;
constexpr Count kTrain = 3 * kBlock + 17;  // the last block is short
constexpr Count kValidation = kBlock;

std::int32_t token_at(Count i, std::int32_t salt) { return static_cast<std::int32_t>((i * 7 + i / 251 + salt) % 256); }

// A byte token file of four blocks to train on and one for validation; another salt gives other tokens.
void write_blocks(const std::string& path, std::int32_t salt = 0) {
  TokenFileWriter writer(path, *learn_tokenizer("byte", {}, {}), kTrain, kValidation, {}, std::nullopt);
  std::vector<std::int32_t> ids(1000);  // appended in pieces that know nothing of blocks
  for (Count done = 0; done < kTrain + kValidation;) {
    const auto count = std::min<Count>(1000, kTrain + kValidation - done);
    for (Count i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = token_at(done + i, salt);
    writer.append(std::span(ids).first(static_cast<std::size_t>(count)));
    done += count;
  }
  writer.finish();
}

// The same tokens as a file of version 1.
void write_version_1(const std::string& path) {
  const TemporaryFolder folder;
  write_blocks(folder / "2.h5");
  const TokenFile source(folder / "2.h5");
  hdf5::File file = hdf5::File::create(path);
  file.set_attribute("format", std::string("cohort-tokens"));
  file.set_attribute("version", Count{1});
  file.set_attribute("vocabulary_size", Count{256});
  file.set_attribute("tokenizer", std::string("byte"));
  const std::string tokenizer = learn_tokenizer("byte", {}, {})->serialise();
  file.set_attribute("tokenizer_crc32", std::int64_t{extend_crc32(0, tokenizer.data(), tokenizer.size())});
  file.write_text("tokenizer", tokenizer);
  file.write_text("sources", "[]");
  for (const Split split : {Split::train, Split::validation}) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(source.tokens(split)));
    source.read(split, 0, ids);
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    hdf5::Dataset dataset =
        file.create_dataset(std::string(name_of(split)), hdf5::Element::u16, std::vector<Count>{source.tokens(split)});
    dataset.write<std::uint16_t>(narrow);
    dataset.set_attribute("crc32", std::int64_t{source.crc32(split)});
  }
  file.close();
}

// Where /train begins in the file.
Bytes offset_of_train(const std::string& path) { return *hdf5::File::open(path, ExitCode::data).open_dataset("train").offset(); }

// Flips a bit of a token of /train, in the file as it is: same size, same inode. The time of modification is moved on by a
// minute, since two writes within a tick of the clock have the same.
void flip(const std::string& path, Count token) {
  const Bytes at = offset_of_train(path) + 2 * token;
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
  file.close();
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::minutes(1));
}

std::vector<std::int32_t> read(const TokenFile& file, Count begin, Count count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  file.read(Split::train, begin, ids);
  return ids;
}

bool is_right(const std::vector<std::int32_t>& ids, Count begin) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != token_at(begin + static_cast<Count>(i), 0)) return false;
  }
  return true;
}

class TokenBlocksTest : public ::testing::TestWithParam<int> {
 protected:
  // Of the version under test.
  void write() const { GetParam() == 1 ? write_version_1(path_) : write_blocks(path_); }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "x.h5";
};

INSTANTIATE_TEST_SUITE_P(Version, TokenBlocksTest, ::testing::Values(1, 2));

TEST_P(TokenBlocksTest, AnyRangeIsRead) {
  write();
  const TokenFile file(path_);
  EXPECT_EQ(file.version(), GetParam());
  for (const auto& [begin, count] : std::vector<std::pair<Count, Count>>{
           {2 * kBlock - 5, 10}, {0, 1}, {kBlock, kBlock}, {kTrain - 3, 3}, {kTrain, 0}, {1, 3 * kBlock}, {0, kTrain}}) {
    EXPECT_TRUE(is_right(read(file, begin, count), begin)) << begin << " " << count;
  }
  EXPECT_NO_THROW(file.verify());
}

TEST_P(TokenBlocksTest, AFlippedBitIsFoundByWhoReadsItsBlock) {
  write();
  flip(path_, kBlock + 5);
  const TokenFile file(path_);
  if (GetParam() == 2) {
    EXPECT_TRUE(is_right(read(file, 0, kBlock), 0)) << "another block";
    EXPECT_ERROR(read(file, 2 * kBlock - 1, 2), ExitCode::data, "x.h5: /train", "tokens 65536 to 131072", "checksum mismatch",
                 fmt::format("bytes {} to {}", offset_of_train(path_) + 2 * kBlock, offset_of_train(path_) + 4 * kBlock).c_str());
  } else {
    EXPECT_ERROR(read(file, 0, 1), ExitCode::data, "x.h5: /train", "tokens 0 to 196625", "checksum mismatch");
  }
  EXPECT_ERROR(file.verify(), ExitCode::data, "x.h5: /train", "checksum mismatch");
  EXPECT_ERROR(file.verify_within(1 << 30), ExitCode::data, "x.h5: /train", "checksum mismatch");
}

TEST_P(TokenBlocksTest, AFileThatIsCutWhileItIsOpenGivesNoZeros) {
  write();
  const TokenFile file(path_);
  file.verify();  // so that nothing is left to be checked
  const Bytes end = offset_of_train(path_) + 2 * (kBlock + 10);
  fs::resize_file(path_, static_cast<std::uintmax_t>(end));
  EXPECT_ERROR(read(file, kBlock + 8, 4), ExitCode::data, "x.h5: /train: tokens",
               fmt::format("the file ends at byte {}", end).c_str());
  EXPECT_ERROR(read(file, 3 * kBlock, 4), ExitCode::data, "x.h5: /train: tokens", "the file ends at byte");
}

TEST_P(TokenBlocksTest, AFileThatIsOverwrittenWhileItIsOpenIsCheckedAgain) {
  write();
  const TokenFile file(path_);
  EXPECT_TRUE(is_right(read(file, 0, kTrain), 0));
  flip(path_, 3);
  EXPECT_ERROR(read(file, 10, 5), ExitCode::data, "x.h5: /train", "checksum mismatch");
}

TEST_P(TokenBlocksTest, AFileThatWasOnlyTouchedIsReadOn) {
  write();
  const TokenFile file(path_);
  EXPECT_TRUE(is_right(read(file, 0, kTrain), 0));
  fs::last_write_time(path_, fs::last_write_time(path_) + std::chrono::minutes(1));
  EXPECT_TRUE(is_right(read(file, 0, kTrain), 0));
}

// As `cohort data prepare` does it under a running training.
TEST_P(TokenBlocksTest, AFileThatWasReplacedIsReadOnAsItWas) {
  write();
  const TokenFile file(path_);
  EXPECT_TRUE(is_right(read(file, 0, 5), 0));
  write_blocks(path_, 1);
  EXPECT_TRUE(is_right(read(file, 0, kTrain), 0));
  EXPECT_FALSE(is_right(read(TokenFile(path_), 0, 5), 0)) << "the new one is another";
}

// The monitor of a job ends what shows no progress: a check of any length shows some with each piece.
TEST_P(TokenBlocksTest, ALongCheckShowsProgress) {
  write();
  const TokenFile file(path_);
  const std::uint64_t before = FlightRecorder::of_process().progress();
  file.verify();
  const auto pieces = (GetParam() == 1 ? 1 : 4) + 1;  // of up to 1 MiB
  EXPECT_GE(FlightRecorder::of_process().progress() - before, static_cast<std::uint64_t>(pieces));
}

TEST(TokenBlocks, AreCheckedWithinABudgetAndOnce) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  write_blocks(path);
  flip(path, 2 * kBlock);
  const TokenFile file(path);
  EXPECT_FALSE(file.verify_within(2 * kBlock * 3)) << "validation and two good blocks of /train";
  EXPECT_TRUE(is_right(read(file, 0, 2 * kBlock), 0));
  EXPECT_ERROR(file.verify_within(2 * kBlock), ExitCode::data, "x.h5: /train", "tokens 131072 to 196608");
  // A checked block is not read whole again: else these reads would take as long as reading 500 MiB.
  const std::uint64_t before = FlightRecorder::of_process().progress();
  for (Count i = 0; i < 4096; ++i) read(file, i, 1);
  EXPECT_EQ(FlightRecorder::of_process().progress(), before);
}

// A thread that saves a checkpoint has HDF5's turn for long.
TEST(TokenBlocks, ReadsDoNotWaitForHdf5) {
  const TemporaryFolder folder;
  write_blocks(folder / "x.h5");
  const TokenFile file(folder / "x.h5");
  std::promise<void> held, done;
  std::thread saving([&] {
    const hdf5::Turn turn;
    held.set_value();
    done.get_future().wait();
  });
  held.get_future().wait();
  std::future<bool> reading = std::async(std::launch::async, [&] { return is_right(read(file, 0, kTrain), 0); });
  EXPECT_EQ(reading.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  done.set_value();
  saving.join();
  EXPECT_TRUE(reading.get());
}

TEST(TokenBlocks, ADamagedTableIsFoundAtTheStart) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  write_blocks(path);
  const Bytes at = *hdf5::File::open(path, ExitCode::data).open_dataset("checksums/train").offset();
  std::string bytes = read_file(path);
  bytes[static_cast<std::size_t>(at) + 9] ^= 4;
  write_file_atomically(path, bytes);
  EXPECT_ERROR(TokenFile{path}, ExitCode::data, "x.h5: /checksums/train", "checksum mismatch");
}

}  // namespace
}  // namespace cohort
