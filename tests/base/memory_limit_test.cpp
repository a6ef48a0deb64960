// Limits of control groups, in folders that are made as Linux mounts them.
#include "base/memory_limit.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

namespace fs = std::filesystem;

class MemoryLimit : public ::testing::Test {
 protected:
  TemporaryFolder root_;
  const Memory machine_{.total = 64 * kGiB, .available = 48 * kGiB};

  void write(const std::string& file, const std::string& text) {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void group_2(const std::string& path, const std::string& limit, Bytes used, Bytes cached = 0) {
    write(path + "/memory.max", limit);
    write(path + "/memory.current", std::to_string(used));
    write(path + "/memory.stat",
          "anon 5\nfile 6\ninactive_file " + std::to_string(cached) + "\nactive_file 0\nslab_reclaimable 7");
  }
  Memory within(const std::string& groups) const { return within_control_groups(machine_, groups, root_.path()); }
  void expect(const std::string& groups, Bytes total, Bytes available) const {
    const Memory memory = within(groups);
    EXPECT_EQ(memory.total, total);
    EXPECT_EQ(memory.available, available);
  }
};

TEST_F(MemoryLimit, OfTheGroupItself) {
  group_2("job_7/step_0", std::to_string(16 * kGiB), 4 * kGiB, kGiB);
  expect("0::/job_7/step_0\n", 16 * kGiB, 13 * kGiB);
}

// SLURM limits the job and the step; tasks have groups below.
TEST_F(MemoryLimit, OfTheTightestGroupAbove) {
  group_2("job_7", std::to_string(8 * kGiB), 6 * kGiB);
  group_2("job_7/step_0", std::to_string(16 * kGiB), 4 * kGiB);
  group_2("job_7/step_0/task_3", "max", kGiB);
  expect("0::/job_7/step_0/task_3\n", 8 * kGiB, 2 * kGiB);
}

// Less is left of a wider limit, since a neighbour has taken it.
TEST_F(MemoryLimit, WhatIsLeftIsTheLeastOfAll) {
  group_2("job_7", std::to_string(32 * kGiB), 31 * kGiB);
  group_2("job_7/step_0", std::to_string(16 * kGiB), kGiB);
  expect("0::/job_7/step_0\n", 16 * kGiB, kGiB);
}

// /proc/self/cgroup may name the group by its path on the machine, of which the container sees nothing but its own group.
TEST_F(MemoryLimit, OfAContainer) {
  group_2(".", std::to_string(2 * kGiB), kGiB);
  expect("0::/\n", 2 * kGiB, kGiB);
  expect("0::/docker/1234\n", 2 * kGiB, kGiB);
}

TEST_F(MemoryLimit, OfVersion1) {
  const std::string job = "memory/slurm/uid_1000/job_7";
  write(job + "/memory.limit_in_bytes", std::to_string(10 * kGiB));
  write(job + "/memory.usage_in_bytes", std::to_string(9 * kGiB));
  write(job + "/memory.stat", "cache 1\ninactive_file 1\ntotal_inactive_file 1073741824\ntotal_active_file 1073741824");
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  expect("9:name=systemd:/x\n4:cpu,memory:/slurm/uid_1000/job_7\n0::/\n", 10 * kGiB, 3 * kGiB);
  expect("3:cpuset:/slurm/uid_1000/job_7\n", machine_.total, machine_.available);
}

TEST_F(MemoryLimit, ThatIsUsedUpLeavesNextToNothing) {
  group_2("job_7", std::to_string(16 * kGiB), 16 * kGiB);
  expect("0::/job_7\n", 16 * kGiB, kKiB);
}

// The machine has less left than the group may take.
TEST_F(MemoryLimit, NeverAddsToWhatTheMachineHas) {
  group_2("job_7", std::to_string(60 * kGiB), 0);
  expect("0::/job_7\n", 60 * kGiB, 48 * kGiB);
  group_2("job_8", std::to_string(100 * kGiB), 0);
  expect("0::/job_8\n", machine_.total, machine_.available);
}

TEST_F(MemoryLimit, WhatCannotBeReadLimitsNothing) {
  expect("", machine_.total, machine_.available);
  expect("0::/not/there\n", machine_.total, machine_.available);
  expect("nonsense\n0:\n:\n", machine_.total, machine_.available);
  group_2("job_7", "many", 0);
  expect("0::/job_7\n", machine_.total, machine_.available);
}

}  // namespace
}  // namespace cohort::test
