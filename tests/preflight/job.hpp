// A job of alike and healthy nodes, for tests to spoil.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "preflight/assess.hpp"

namespace cohort::preflight::test {

inline Gpu healthy_gpu(int index) {
  Gpu gpu;
  gpu.pci_id = fmt::format("0000:{}B:00.0", index + 1);
  gpu.name = "NVIDIA H200";
  gpu.to_device = 55e9;
  gpu.from_device = 54e9;
  gpu.memory = 4300e9;
  gpu.celsius = 45;
  gpu.clock_mhz = 1980;
  gpu.max_clock_mhz = 1980;
  gpu.uncorrected_errors = 0;
  return gpu;
}

inline Node healthy_node(int number, int gpus) {
  Node node;
  node.number = number;
  node.host = fmt::format("node{}", number);
  node.ranks = 4;
  node.cores = 32;
  node.program = "0.1.0 abc";
  node.mpi = "Open MPI v4.1.6";
  node.memory_total = 256 * kGiB;
  node.memory_available = 240 * kGiB;
  node.shm_total = 128 * kGiB;
  node.shm_free = 127 * kGiB;
  node.open_files = 131072;
  node.fabric = {"mlx5_0 port 1, 400 Gb/sec (4X NDR)"};
  node.clock_offset = number == 0 ? 0.0 : 1e-4;
  node.clock_error = 1e-5;
  node.disk = Disk{"/scratch", "", 2e9, 4e9, 1000 * kGiB};
  node.links.push_back({number, number, 5e-7, 10e9});
  if (gpus == 0) return node;
  node.driver = "580.65.06";
  node.driver_cuda = node.runtime_cuda = "13.0";
  node.nccl = "2.28.3";
  node.expected_gpus = gpus;
  for (int i = 0; i < gpus; ++i) node.gpus.push_back(healthy_gpu(i));
  for (const Gpu& from : node.gpus) {
    for (const Gpu& to : node.gpus) {
      if (&from != &to) node.pairs.push_back({from.pci_id, to.pci_id, true, 350e9});
    }
  }
  return node;
}

inline Measurements healthy_job(int nodes, int gpus = 0) {
  Measurements all;
  all.ranks = 4 * nodes;
  all.cuda = gpus > 0;
  for (int n = 0; n < nodes; ++n) all.nodes.push_back(healthy_node(n, gpus));
  for (int a = 0; a < nodes; ++a) {
    for (int b = a + 1; b < nodes; ++b) all.nodes[static_cast<std::size_t>(a)].links.push_back({a, b, 2e-6, 20e9});
  }
  if (gpus > 0) all.nccl = 300e9;
  return all;
}

/// Expects exactly one problem in the whole job: of this check and level, and with all parts in its line.
inline void expect_only(const Measurements& job, Level level, const std::string& check, const std::vector<std::string>& parts) {
  const std::vector<Check> checks = assess(job);
  std::vector<std::string> all = problems_of(checks, Level::fail);
  const std::vector<std::string> warnings = problems_of(checks, Level::warn);
  all.insert(all.end(), warnings.begin(), warnings.end());
  ASSERT_EQ(all.size(), 1u) << fmt::format("{}", fmt::join(all, "\n"));
  EXPECT_EQ(problems_of(checks, level).size(), 1u) << "another level: " << all[0];
  EXPECT_TRUE(all[0].starts_with(check + ": ")) << all[0];
  for (const std::string& part : parts) EXPECT_NE(all[0].find(part), std::string::npos) << part << " is not in: " << all[0];
}

inline void expect_no_problem(const Measurements& job) {
  for (const Check& check : assess(job)) {
    for (const Problem& problem : check.problems) ADD_FAILURE() << check.name << ": " << problem.text;
  }
}

}  // namespace cohort::preflight::test
