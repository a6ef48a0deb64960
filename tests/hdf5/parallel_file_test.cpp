// Parallel files: the ranks write their ranges of one file together; each rank reads all of it back. One file for each case,
// named for the number of ranks, in a folder that rank 0 makes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/box.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/hdf5_test_support.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::hdf5 {
namespace {

using test::numbers;

/// A folder that all ranks see.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& comm) : comm_(comm) {
    if (comm.rank() == 0) own_.emplace();
    path_ = broadcast_text(comm, own_ ? own_->path().string() : "", 0);
  }
  ~SharedFolder() { comm_.barrier(); }  // before rank 0 removes it
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  Communicator& comm_;
  std::optional<test::TemporaryFolder> own_;
  std::string path_;
};

struct Range {
  Count begin;
  Count elements;
};

/// Equal ranges in rank order, the last ranks less or nothing, as ZeRO cuts a tensor.
Range range_of(Communicator& comm, Count all, Count piece) {
  const Count begin = std::min(all, comm.rank() * piece);
  return {begin, std::min(piece, all - begin)};
}

TEST(ParallelFile, RangesOfAllRanksMakeTheWhole) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  const std::string path = folder / "ranges.h5";
  File file = File::create_parallel(path, mpi_handle(*world));
  const std::vector<std::vector<Count>> shapes{{}, {1}, {7, 3}, {5, 4, 3}, {2, 3, 2, 5}, {0, 3}, {1000, 77}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Count all = product_of(shapes[i]);
    for (const Bytes chunk : {0, 200}) {
      Dataset dataset = file.create_dataset(fmt::format("group/{}-{}", i, chunk), Element::i32, shapes[i], {.chunk = chunk});
      const Count piece = (all + world->size() - 1) / world->size() + 1;  // the last rank has less, or nothing
      const Range own = range_of(*world, all, piece);
      const std::vector<std::int32_t> values = numbers(own.elements, static_cast<std::int32_t>(own.begin));
      dataset.write_range_collectively(own.begin, own.elements, values.data(), Element::i32, i % 2 == 0 ? 1 : 3);
    }
  }
  file.set_attribute("shape", std::vector<Count>{1, 2});
  file.write_text("text", "of all ranks");
  file.close();
  world->barrier();
  const File again = File::open(path, ExitCode::checkpoint);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (const Bytes chunk : {0, 200}) {
      const Dataset dataset = again.open_dataset(fmt::format("group/{}-{}", i, chunk));
      std::vector<std::int32_t> back(static_cast<std::size_t>(product_of(shapes[i])));
      dataset.read<std::int32_t>(back);
      EXPECT_EQ(back, numbers(product_of(shapes[i]), 0)) << dataset.name();
    }
  }
  EXPECT_EQ(again.counts_attribute("shape"), (std::vector<Count>{1, 2}));
  EXPECT_EQ(again.read_text("text"), "of all ranks");
}

TEST(ParallelFile, H5pyReadsIt) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  const std::string path = folder / "for_h5py.h5";
  const std::vector<std::uint16_t> bits{0x3f80, 0x4000};  // 1 and 2 in bf16
  {
    File file = File::create_parallel(path, mpi_handle(*world));
    file.create_dataset("model/x", Element::bf16, std::vector<Count>{world->size(), 1, 2})
        .write_range_collectively(world->rank() * 2, 2, bits.data(), Element::bf16, 1);
    file.set_attribute("step", std::int64_t{5});
    file.close();
  }
  world->barrier();
  if (world->rank() != 0) return;
  const std::string python = test::run("/usr/bin/python3 -c 'import h5py'").status == 0 ? "/usr/bin/python3" : "python3";
  if (test::run(python + " -c 'import h5py'").status != 0) GTEST_SKIP() << "h5py is not installed (python3-h5py)";
  const test::Output read = test::run(fmt::format(
      R"py({} -c "import h5py; f = h5py.File('{}', 'r'); print(f['model/x'].astype('f4')[...].sum(), f['model/x'].shape, f.attrs['step'])")py",
      python, path));
  EXPECT_EQ(read.text, fmt::format("{}.0 ({}, 1, 2) 5\n", 3 * world->size(), world->size()));
}

// The number of rounds that the largest range needs, with ranges of very different sizes, and alignment.
TEST(ParallelFile, LargeRangesGoInRounds) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  const std::string path = folder / "rounds.h5";
  const Count most = kRoundBytes / Count{sizeof(std::int32_t)};
  EXPECT_EQ(Dataset::collective_rounds(0, Element::i32), 0);
  EXPECT_EQ(Dataset::collective_rounds(most, Element::i32), 1);
  EXPECT_EQ(Dataset::collective_rounds(most + 1, Element::i32), 2);
  const Count first = most + 12345;  // of rank 0; the others have 1000 each
  const Count rounds = Dataset::collective_rounds(first, Element::i32);
  const Count all = first + 1000 * (world->size() - 1);
  const Range own = world->rank() == 0 ? Range{0, first} : Range{first + 1000 * (world->rank() - 1), 1000};
  const FileOptions options{.alignment = kMiB, .stripe_count = 2, .stripe_size = kMiB};
  {
    File file = File::create_parallel(path, mpi_handle(*world), ExitCode::io, options);
    {
      Dataset dataset = file.create_dataset("x", Element::i32, std::vector<Count>{all}, {});
      const std::vector<std::int32_t> values = numbers(own.elements, static_cast<std::int32_t>(own.begin));
      EXPECT_ERROR(dataset.write_range_collectively(0, first, values.data(), Element::i32, rounds - 1), ExitCode::internal,
                   "in 1 rounds: 2 are needed");
      dataset.write_range_collectively(own.begin, own.elements, values.data(), Element::i32, rounds);
    }
    file.close();
  }
  world->barrier();
  std::vector<std::int32_t> back(static_cast<std::size_t>(own.elements));
  File::open(path, ExitCode::io).open_dataset("x").read_range(own.begin, own.elements, back.data(), Element::i32);
  EXPECT_TRUE(back == numbers(own.elements, static_cast<std::int32_t>(own.begin)));
}

TEST(ParallelFile, EachRankAloneAndGroupsOfRanks) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  const auto self = make_self_communicator("alone");
  const auto half = world->split(world->rank() / 2, 0, "half");
  for (Communicator* comm : {self.get(), half.get()}) {
    const std::string path = folder / fmt::format("{}-{}.h5", comm->name(), world->rank() - comm->rank());
    File file = File::create_parallel(path, mpi_handle(*comm));
    {
      Dataset dataset = file.create_dataset("x", Element::i32, std::vector<Count>{comm->size(), 10});
      dataset.write_range_collectively(comm->rank() * 10, 10, numbers(10, world->rank()).data(), Element::i32, 1);
      Dataset other = file.create_dataset("y", Element::i32, std::vector<Count>{comm->size(), 10});
      other.write_range(comm->rank() * 10, 10, numbers(10, world->rank()).data(), Element::i32);  // each rank on its own
    }
    file.close();
    comm->barrier();
    for (const char* name : {"x", "y"}) {
      std::vector<std::int32_t> back(static_cast<std::size_t>(comm->size() * 10));
      File::open(path, ExitCode::io).open_dataset(name).read<std::int32_t>(back);
      for (int r = 0; r < comm->size(); ++r) EXPECT_EQ(back[r * 10], world->rank() - comm->rank() + r);
    }
  }
}

TEST(ParallelFile, WhatCannotBeIsRefusedOnAllRanks) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  const void* handle = mpi_handle(*world);
  EXPECT_ERROR(File::create_parallel(folder / "no/such/folder.h5", handle), ExitCode::io, "no/such/folder.h5",
               "cannot be created");
  EXPECT_ERROR(File::create_parallel(folder / "x.h5", handle, ExitCode::io, {.locking = true}), ExitCode::config, "locking");
  File file = File::create_parallel(folder / "x.h5", handle);
  EXPECT_ERROR(file.create_dataset("x", Element::i32, std::vector<Count>{9}, {.chunk = 100, .compression = 1}), ExitCode::config,
               "parallel file");
  if (world->rank() == 0) {
    File serial = File::create(folder / "serial.h5");
    Dataset dataset = serial.create_dataset("x", Element::i32, std::vector<Count>{1});
    EXPECT_ERROR(dataset.write_range_collectively(0, 0, nullptr, Element::i32, 1), ExitCode::internal, "serial file");
  }
}

// The disk is full for one rank, for each in turn, or for all. The step ends on all ranks, under fail_together(), and so does the
// closing.
void check_full_disk(Communicator& world, const std::string& path, int full_rank) {
  SCOPED_TRACE(fmt::format("rank {}", full_rank));
  constexpr Count kEach = Count{2} << 20;  // 8 MiB
  std::optional<test::FileSizeLimit> limit;
  if (full_rank < 0 || world.rank() == full_rank) limit.emplace(kMiB);
  bool failed = false;
  try {
    std::optional<File> file;
    std::optional<Dataset> dataset;
    fail_together(world, "creating", [&] {
      file.emplace(File::create_parallel(path, mpi_handle(world)));
      dataset.emplace(file->create_dataset("x", Element::i32, std::vector<Count>{kEach * world.size()}));
    });
    const std::vector<std::int32_t> values = numbers(kEach, 0);
    fail_together(world, "writing", [&] {
      dataset->write_range_collectively(kEach * world.rank(), kEach, values.data(), Element::i32, 3);
      dataset.reset();
    });
    fail_together(world, "closing", [&] { file->close(); });
  } catch (const SharedError& error) {
    failed = true;
    const std::string message = error.what();
    EXPECT_NE(message.find("full.h5"), std::string::npos) << message;
    EXPECT_NE(message.find("free space"), std::string::npos) << message;
  }
  EXPECT_TRUE(failed);
}

/// While it lives, this process can open no more files.
class NoFileLeft {
 public:
  NoFileLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::open("/dev/null", O_RDONLY);  // the lowest free number
    const rlimit few{static_cast<rlim_t>(next) + 64, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int file = next; file >= 0; file = ::open("/dev/null", O_RDONLY)) files_.push_back(file);
  }
  ~NoFileLeft() {
    for (const int file : files_) ::close(file);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoFileLeft(const NoFileLeft&) = delete;
  NoFileLeft& operator=(const NoFileLeft&) = delete;

 private:
  rlimit before_{};
  std::vector<int> files_;
};

TEST(ParallelFile, AFileThatOneRankCannotOpenIsAnErrorOnAllRanks) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  for (int failing = 0; failing < world->size(); ++failing) {
    const std::string path = folder / fmt::format("{}.h5", failing);
    const std::string reason = fmt::format("cannot be created by rank {} of {}: Too many open files", failing, world->size());
    std::optional<NoFileLeft> none;
    if (world->rank() == failing) none.emplace();
    EXPECT_ERROR(File::create_parallel(path, mpi_handle(*world)), ExitCode::io, path.c_str(), reason.c_str());
    none.reset();
    File::create_parallel(path, mpi_handle(*world)).close();  // the ranks are still in step
  }
}

TEST(ParallelFile, AFullDiskIsAnErrorOnAllRanks) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  for (int rank = -1; rank < world->size(); ++rank) check_full_disk(*world, folder / "full.h5", rank);
}

}  // namespace
}  // namespace cohort::hdf5
