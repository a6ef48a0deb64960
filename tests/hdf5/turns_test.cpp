// Threads take turns in HDF5: files of several threads come out right, and a long transfer lets others in between its slabs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "hdf5/hdf5.hpp"
#include "hdf5/hdf5_test_support.hpp"
#include "hdf5/turn.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::hdf5 {
namespace {

using test::numbers;
using test::TemporaryFolder;

// Without the lock HDF5 crashes, or mixes up its identifiers: seen with an empty Turn.
void write_and_read(const std::string& path, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    File file = File::create(path);
    for (std::int32_t i = 0; i < 20; ++i) {
      const std::vector<std::int32_t> values = numbers(100, i);
      Dataset dataset = file.create_dataset(fmt::format("group{}/values{}", i % 3, i), Element::i32, std::vector<Count>{10, 10});
      dataset.write<std::int32_t>(values);
      dataset.set_attribute("number", std::int64_t{i});
    }
    file.close();
    const File again = File::open(path, ExitCode::data);
    for (std::int32_t i = 0; i < 20; ++i) {
      const Dataset dataset = again.open_dataset(fmt::format("group{}/values{}", i % 3, i));
      std::vector<std::int32_t> values(100);
      dataset.read<std::int32_t>(values);
      EXPECT_EQ(values, numbers(100, i));
      EXPECT_EQ(dataset.int_attribute("number"), i);
      EXPECT_FALSE(again.has_dataset("absent"));  // an error of one thread is not another's
    }
  }
}

TEST(Turns, ThreadsUseFilesAtTheSameTime) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { write_and_read(folder / fmt::format("{}.h5", i), 20); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Turns, NobodyIsInsideTogether) {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        const Turn outer;
        const Turn nested;
        most = std::max<int>(most, ++inside);
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

// A thread that gives up its turn and wants it back at once comes after those that wait already.
TEST(Turns, WhoWaitsLongestIsNext) {
  std::atomic<bool> waiting = false;
  std::atomic<bool> served = false;
  std::thread other;
  {
    const Turn turn;
    other = std::thread([&] {
      waiting = true;
      const Turn own;
      served = true;
    });
    while (!waiting) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the other draws its ticket
  }
  {
    const Turn again;
    EXPECT_TRUE(served);
  }
  other.join();
}

TEST(Turns, ALongTransferLetsOthersIn) {
  const TemporaryFolder folder;
  constexpr Count kSlabs = 40;
  constexpr Count kElements = kSlabs * kSlabBytes / Count{sizeof(std::int32_t)};
  const std::vector<std::int32_t> values = numbers(kElements, 7);
  File small = File::create(folder / "small.h5");
  small.set_attribute("number", std::int64_t{3});
  std::atomic<bool> writing = false;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    File file = File::create(folder / "large.h5");
    Dataset dataset = file.create_dataset("values", Element::i32, std::vector<Count>{kElements / 16, 16});
    writing = true;
    dataset.write<std::int32_t>(values);
    done = true;
    std::vector<std::int32_t> back(values.size());
    dataset.read<std::int32_t>(back);
    EXPECT_EQ(back, values);
  });
  while (!writing) std::this_thread::yield();
  std::set<std::uintmax_t> sizes;  // of the growing file, each after a read in a turn of its own
  while (!done) {
    EXPECT_EQ(small.int_attribute("number"), 3);
    sizes.insert(std::filesystem::file_size(folder / "large.h5"));
  }
  writer.join();
  // One between every two slabs, fewer where this thread was not scheduled; two or three if the writer kept its turn.
  EXPECT_GE(sizes.size(), 10u);
}

}  // namespace
}  // namespace cohort::hdf5
