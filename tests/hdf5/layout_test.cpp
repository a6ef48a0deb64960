// Flat ranges, chunks, compression, alignment, file locks, array attributes, and errors of the disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/box.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/hdf5_test_support.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::hdf5 {
namespace {

using test::numbers;
using test::TemporaryFolder;

TEST(Ranges, EveryRangeIsReadAndWritten) {
  const TemporaryFolder folder;
  File file = File::create(folder / "ranges.h5");
  int index = 0;
  for (const std::vector<Count>& shape : {std::vector<Count>{}, {7}, {3, 4}, {2, 3, 4}}) {
    for (const Bytes chunk : {Bytes{0}, Bytes{20}}) {
      const Count all = product_of(shape);
      Dataset dataset = file.create_dataset(fmt::format("{}", index++), Element::i32, shape, {.chunk = chunk});
      std::vector<std::int32_t> wanted = numbers(all, 0);
      dataset.write<std::int32_t>(wanted);
      for (Count begin = 0; begin <= all; ++begin) {
        for (Count elements = 0; begin + elements <= all; ++elements) {
          const std::vector<std::int32_t> piece = numbers(elements, static_cast<std::int32_t>(1000 * begin + elements));
          dataset.write_range(begin, elements, piece.data(), Element::i32);
          std::copy(piece.begin(), piece.end(), wanted.begin() + begin);
          std::vector<std::int32_t> back(static_cast<std::size_t>(all));
          dataset.read<std::int32_t>(back);
          ASSERT_EQ(back, wanted) << begin << " " << elements;
          std::vector<std::int32_t> part(static_cast<std::size_t>(elements));
          dataset.read_range(begin, elements, part.data(), Element::i32);
          ASSERT_EQ(part, piece) << begin << " " << elements;
        }
      }
      EXPECT_ERROR(dataset.read_range(all, 1, wanted.data(), Element::i32), ExitCode::internal, "1 elements from");
      EXPECT_ERROR(dataset.write_range(-1, 1, wanted.data(), Element::i32), ExitCode::internal, "from -1");
      EXPECT_ERROR(dataset.write_range(0, 1, wanted.data(), Element::f32), ExitCode::io, "holds int32 where float32");
    }
  }
}

// Several slabs, whose borders lie within rows, in whole datasets and in blocks.
TEST(Ranges, SlabsMeet) {
  const TemporaryFolder folder;
  File file = File::create(folder / "slabs.h5");
  const std::vector<Count> shape{7001, 1009};  // 27 MiB
  const std::vector<std::int32_t> values = numbers(product_of(shape), 1);
  std::vector<std::int32_t> back(values.size());
  for (const DatasetLayout& layout : {DatasetLayout{}, {.chunk = 3 * kMiB}, {.chunk = kMiB, .compression = 1}}) {
    Dataset dataset = file.create_dataset(fmt::format("{}-{}", layout.chunk, layout.compression), Element::i32, shape, layout);
    dataset.write<std::int32_t>(values);
    std::fill(back.begin(), back.end(), 0);
    dataset.read<std::int32_t>(back);
    EXPECT_TRUE(back == values);
    const std::vector<Count> start{1, 2};
    const std::vector<Count> count{7000, 1000};
    dataset.read_block(start, count, back.data(), Element::i32);
    bool right = true;
    for (Count i = 0; i < product_of(count); ++i) right = right && back[i] == values[(i / 1000 + 1) * 1009 + i % 1000 + 2];
    EXPECT_TRUE(right);
  }
}

TEST(Layout, CompressionSavesSpaceAndGivesTheSameValues) {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> values = numbers(Count{1} << 20, 0);
  const auto size_with = [&](const DatasetLayout& layout) {
    const std::string path = folder / "file.h5";
    File file = File::create(path);
    file.create_dataset("x", Element::i32, std::vector<Count>{1024, 4, 256}, layout).write<std::int32_t>(values);
    file.close();
    std::vector<std::int32_t> back(values.size());
    File::open(path, ExitCode::data).open_dataset("x").read<std::int32_t>(back);
    EXPECT_TRUE(back == values);
    return static_cast<Bytes>(std::filesystem::file_size(path));
  };
  const Bytes plain = 4 * kMiB;
  EXPECT_GE(size_with({.chunk = 256 * kKiB}), plain);
  EXPECT_LT(size_with({.chunk = 256 * kKiB, .compression = 1}), plain / 10);  // shuffled counting numbers are mostly equal bytes
  EXPECT_LT(size_with({.chunk = 1000, .compression = 9}), plain / 2);         // less than a row: many small chunks
  EXPECT_LT(size_with({.chunk = kLargestChunk, .compression = 9}), plain / 10);  // clipped to the shape
}

TEST(Layout, WhatCannotBeIsRefused) {
  const TemporaryFolder folder;
  File file = File::create(folder / "refused.h5");
  const std::vector<Count> shape{8};
  const auto create = [&](const DatasetLayout& layout) { file.create_dataset("x", Element::i32, shape, layout); };
  EXPECT_ERROR(create({.compression = 3}), ExitCode::config, "needs chunks");
  EXPECT_ERROR(create({.chunk = kMiB, .compression = 10}), ExitCode::config, "0 (none) to 9");
  EXPECT_ERROR(create({.chunk = -1}), ExitCode::config, "-1 bytes");
  EXPECT_ERROR(create({.chunk = kLargestChunk + 1}), ExitCode::config, "16777216");
  EXPECT_ERROR(File::create(folder / "x.h5", ExitCode::io, {.alignment = -1}), ExitCode::config, "alignment -1");
  file.create_dataset("scalar", Element::i32, {}, {.chunk = kMiB, .compression = 1}).write<std::int32_t>(numbers(1, 5));
  file.create_dataset("none", Element::i32, std::vector<Count>{0, 3}, {.chunk = kMiB, .compression = 1});
}

TEST(Layout, AlignedDatasetsStartAtMultiples) {
  const TemporaryFolder folder;
  const std::string path = folder / "aligned.h5";
  const auto offset_of = [&](const FileOptions& options) {
    File file = File::create(path, ExitCode::io, options);
    file.create_dataset("small", Element::u8, std::vector<Count>{100}).write<std::uint8_t>(std::vector<std::uint8_t>(100, 1));
    const std::vector<std::uint8_t> values(100000, 0xA5);
    file.create_dataset("large", Element::u8, std::vector<Count>{100000}).write<std::uint8_t>(values);
    file.close();
    return test::text_of(path).find(std::string(100000, '\xA5'));
  };
  EXPECT_EQ(offset_of({.alignment = 65536}) % 65536, 0u);
  EXPECT_NE(offset_of({}) % 65536, 0u);
}

// A child process holds flock() on `path` until the parent has run `work`.
template <class Work>
void while_locked(const std::string& path, int operation, const Work& work) {
  int ready[2];
  int over[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(over), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(over[1]);
    const int file = ::open(path.c_str(), O_RDWR);
    char byte = ::flock(file, operation) == 0 ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) == 1 && ::read(over[0], &byte, 1) == 0) ::_exit(0);
    ::_exit(1);
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  work();
  for (const int end : {ready[0], ready[1], over[0], over[1]}) ::close(end);
  ::waitpid(child, nullptr, 0);
}

TEST(Locking, AFileThatIsLockedElsewhereIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "locked.h5";
  const FileOptions locking{.locking = true};
  const auto write = [&](const FileOptions& options) {
    File file = File::create(path, ExitCode::io, options);
    file.set_attribute("step", std::int64_t{4});
    file.close();
  };
  write(locking);
  while_locked(path, LOCK_EX, [&] {
    EXPECT_ERROR(File::create(path, ExitCode::checkpoint, locking), ExitCode::io, "locked.h5", "locked by another process",
                 "wait");
    EXPECT_ERROR(File::open(path, ExitCode::checkpoint, locking), ExitCode::io, "locked by another process");
    EXPECT_EQ(File::open(path, ExitCode::checkpoint).int_attribute("step"), 4);  // untouched; and locks bind who asks for them
  });
  while_locked(path, LOCK_SH, [&] {
    EXPECT_EQ(File::open(path, ExitCode::checkpoint, locking).int_attribute("step"), 4);  // readers share
    EXPECT_ERROR(File::create(path, ExitCode::checkpoint, locking), ExitCode::io, "locked by another process");
  });
  write(locking);  // free again
}

TEST(Locking, AnOpenFileIsLockedIfAskedFor) {
  const TemporaryFolder folder;
  const std::string path = folder / "open.h5";
  const auto can_lock = [&](int operation) {  // another open file description: as another process
    const int file = ::open(path.c_str(), O_RDWR);
    const bool locked = ::flock(file, operation | LOCK_NB) == 0;
    ::close(file);
    return locked;
  };
  {
    const File file = File::create(path, ExitCode::io, {.locking = true});
    EXPECT_FALSE(can_lock(LOCK_SH));
  }
  {
    const File file = File::open(path, ExitCode::io, {.locking = true});
    EXPECT_TRUE(can_lock(LOCK_SH));
    EXPECT_FALSE(can_lock(LOCK_EX));
  }
  const File file = File::open(path, ExitCode::io);
  EXPECT_TRUE(can_lock(LOCK_EX));
}

TEST(Attributes, ArraysOfCounts) {
  const TemporaryFolder folder;
  const std::string path = folder / "arrays.h5";
  const std::vector<Count> counts{3, -1, Count{1} << 40};
  const std::vector<Count> most(7500, 9);
  {
    File file = File::create(path);
    file.set_attribute("counts", most);
    file.set_attribute("counts", counts);  // replaces
    file.set_attribute("none", std::vector<Count>{});
    file.set_attribute("most", most);
    file.set_attribute("scalar", std::int64_t{1});
    file.set_attribute("text", std::string("a"));
    EXPECT_ERROR(file.set_attribute("more", std::vector<Count>(7501)), ExitCode::internal, "60008 bytes");
    file.close();
  }
  const File file = File::open(path, ExitCode::checkpoint);
  EXPECT_EQ(file.counts_attribute("counts"), counts);
  EXPECT_EQ(file.counts_attribute("none"), std::vector<Count>{});
  EXPECT_EQ(file.counts_attribute("most"), most);
  EXPECT_ERROR(file.counts_attribute("scalar"), ExitCode::checkpoint, "'scalar' is not an array");
  EXPECT_ERROR(file.counts_attribute("text"), ExitCode::checkpoint, "'text' is not an array");
  EXPECT_ERROR(file.counts_attribute("absent"), ExitCode::checkpoint, "'absent' is missing");
  EXPECT_ERROR(file.int_attribute("counts"), ExitCode::checkpoint, "'counts' is not an integer");
}

TEST(Disk, AFullOneIsAnErrorWithPathAndReason) {
  const TemporaryFolder folder;
  const std::string path = folder / "full.h5";
  const std::vector<std::int32_t> values = numbers(Count{6} << 20, 0);  // 24 MiB
  const test::FileSizeLimit limit(12 * kMiB);
  File file = File::create(path);
  Dataset dataset = file.create_dataset("x", Element::i32, std::vector<Count>{Count{6} << 20});
  EXPECT_ERROR(dataset.write<std::int32_t>(values), ExitCode::io, "full.h5", "/x", "cannot be written", "File too large");
}

// What could not be closed is given up: the name can be used again, and the process ends well (else it crashes at exit, which
// fails the whole test program).
TEST(Disk, AFileThatCannotBeClosedIsGivenUp) {
  const TemporaryFolder folder;
  const std::string path = folder / "full.h5";
  const std::vector<std::int32_t> values = numbers(1000, 0);
  const auto write = [&] {
    File file = File::create(path);
    for (int i = 0; i < 100; ++i) {
      file.create_dataset(fmt::format("{}", i), Element::i32, std::vector<Count>{1000}).write<std::int32_t>(values);
    }
    file.close();
  };
  {
    const test::FileSizeLimit limit(100);
    EXPECT_ERROR(write(), ExitCode::io, "full.h5", "cannot be", "File too large");
  }
  write();
  std::vector<std::int32_t> back(1000);
  File::open(path, ExitCode::data).open_dataset("99").read<std::int32_t>(back);
  EXPECT_EQ(back, values);
}

// HDF5 holds small data and chunks in memory until the dataset is closed. That it could not write them then must not go
// unnoticed.
TEST(Disk, WhatADatasetLosesWhenItIsClosedIsAnErrorOfTheFile) {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> values = numbers(3 * kMiB / 4, 0);
  File file = File::create(folder / "full.h5");
  {
    const test::FileSizeLimit limit(kMiB);
    Dataset dataset =
        file.create_dataset("x", Element::i32, std::vector<Count>{3 * kMiB / 4}, {.chunk = 3 * kMiB, .compression = 0});
    dataset.write_range(0, 1000, values.data(), Element::i32);  // a piece of a chunk
  }
  EXPECT_ERROR(file.close(), ExitCode::io, "full.h5", "data of a dataset could not be written");
}

// What reads elements without HDF5 finds them at the offset, in the file that was opened, whatever bears its name later.
TEST(Layout, ContiguousElementsLieAtTheirOffset) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const std::vector<std::int32_t> values{7, 8, 9};
  {
    File file = File::create(path);
    file.create_dataset("contiguous", Element::i32, std::vector<Count>{3}).write<std::int32_t>(values);
    file.create_dataset("chunked", Element::i32, std::vector<Count>{3}, {.chunk = 4}).write<std::int32_t>(values);
    file.create_dataset("empty", Element::i32, std::vector<Count>{0});
    file.close();
  }
  const File file = File::open(path, ExitCode::data);
  std::filesystem::remove(path);
  EXPECT_FALSE(file.open_dataset("chunked").offset());
  EXPECT_FALSE(file.open_dataset("empty").offset());
  const std::optional<Bytes> offset = file.open_dataset("contiguous").offset();
  ASSERT_TRUE(offset);
  std::vector<std::int32_t> read(3);
  ASSERT_EQ(pread(file.descriptor(), read.data(), 12, *offset), 12);
  EXPECT_EQ(read, values);
}

}  // namespace
}  // namespace cohort::hdf5
