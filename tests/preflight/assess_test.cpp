// The verdict on made-up nodes: healthy ones pass, and of spoilt ones the right one is named, and nothing else.
#include <fmt/ranges.h>

#include "preflight/job.hpp"

namespace cohort::preflight::test {
namespace {

TEST(Assess, HealthyNodesPass) {
  for (const int nodes : {1, 2, 3, 8}) expect_no_problem(healthy_job(nodes));
}

TEST(Assess, OrdinaryScatterPasses) {
  Measurements job = healthy_job(4);
  job.nodes[1].disk->write *= 0.85;
  job.nodes[2].links[0].speed *= 0.85;
  job.nodes[3].memory_available = 150 * kGiB;
  expect_no_problem(job);
}

// All links of one node are slow; the other ends of these links are not blamed.
TEST(Assess, ANodeThatIsSlowWithAllIsNamed) {
  for (const int bad : {0, 2, 4}) {
    Measurements job = healthy_job(5);
    for (Node& node : job.nodes) {
      for (Link& link : node.links) {
        if (link.a != link.b && (link.a == bad || link.b == bad)) link.speed = 3e9;
      }
    }
    expect_only(job, Level::fail, "MPI between nodes", {fmt::format("node{}:", bad), "3 GB/s", "20 GB/s (median)"});
  }
}

TEST(Assess, ASlowerNodeIsAWarning) {
  Measurements job = healthy_job(3);
  job.nodes[1].links[0].speed = 7e9;
  expect_only(job, Level::warn, "MPI in a node", {"node1", "7 GB/s", "10 GB/s"});
}

TEST(Assess, OfTwoNodesTheSlowOneIsNamed) {
  Measurements job = healthy_job(2);
  job.nodes[1].links[0].speed = 4e9;
  expect_only(job, Level::fail, "MPI in a node", {"node1", "4 GB/s", "10 GB/s"});
}

TEST(Assess, GigabitEthernetEverywhereIsAWarning) {
  Measurements job = healthy_job(2);
  job.nodes[0].links[1].speed = 0.117e9;
  const std::vector<Check> checks = assess(job);
  EXPECT_EQ(problems_of(checks, Level::fail).size(), 0u);
  EXPECT_EQ(problems_of(checks, Level::warn).size(), 2u);  // both ends
}

TEST(Assess, ALongWayIsAWarning) {
  Measurements job = healthy_job(3);
  job.nodes[2].links[0].latency = 2e-6;
  expect_only(job, Level::warn, "MPI in a node", {"node2", "2 us", "0.5 us"});
}

TEST(Assess, ClockSkew) {
  Measurements job = healthy_job(3);
  job.nodes[2].clock_offset = -0.5;
  expect_only(job, Level::warn, "clock skew", {"node2", "500 ms behind", "node0"});
  job.nodes[2].clock_offset = 61.0;
  expect_only(job, Level::fail, "clock skew", {"node2", "61 s ahead of"});
}

// A slow network cannot tell the time: what is within the error is no finding.
TEST(Assess, AnUncertainClockIsNotBlamed) {
  Measurements job = healthy_job(2);
  job.nodes[1].clock_offset = 0.3;
  job.nodes[1].clock_error = 0.25;
  expect_no_problem(job);
  job.nodes[1].clock_error = 0.15;
  expect_only(job, Level::warn, "clock skew", {"node1", "within 150 ms"});
}

TEST(Assess, DifferentVersions) {
  Measurements job = healthy_job(3);
  job.nodes[1].mpi = "Open MPI v4.1.4";
  expect_only(job, Level::fail, "MPI", {"node1: Open MPI v4.1.4", "others have Open MPI v4.1.6"});
  job = healthy_job(3);
  job.nodes[0].program = "0.1.0 old";
  expect_only(job, Level::fail, "Cohort", {"node0: 0.1.0 old"});
  job = healthy_job(3);
  job.nodes[2].transports = "UCX_TLS=tcp";
  expect_only(job, Level::warn, "settings", {"node2: UCX_TLS=tcp where the others have none"});
}

TEST(Assess, AFabricThatIsDown) {
  Measurements job = healthy_job(3);
  job.nodes[1].fabric.clear();
  expect_only(job, Level::warn, "fabric", {"node1: none", "mlx5_0"});
}

TEST(Assess, Disk) {
  Measurements job = healthy_job(3);
  job.nodes[1].disk->problem = "cannot create a scratch file in '/scratch': Permission denied";
  expect_only(job, Level::fail, "disk space", {"node1", "Permission denied"});
  job = healthy_job(3);
  job.nodes[2].disk->write = 0.5e9;
  expect_only(job, Level::warn, "disk write", {"node2", "0.5 GB/s", "2 GB/s"});
  job = healthy_job(1);
  job.nodes[0].disk->read = 0.01e9;
  expect_only(job, Level::warn, "disk read", {"node0", "below 0.05 GB/s"});
  job = healthy_job(1);
  job.nodes[0].disk->free = kGiB;
  expect_only(job, Level::warn, "disk space", {"node0", "1.0 GiB", "/scratch"});
}

TEST(Assess, SharedMemoryAndMemory) {
  Measurements job = healthy_job(2);
  job.nodes[1].shm_free = 4 * 64 * kMiB - 1;  // 4 ranks
  expect_only(job, Level::warn, "/dev/shm", {"node1", "4 ranks"});
  job.nodes[1].shm_free = 4 * 16 * kMiB - 1;
  expect_only(job, Level::fail, "/dev/shm", {"node1"});
  job = healthy_job(3);
  job.nodes[0].memory_available = 100 * kGiB;
  expect_only(job, Level::warn, "memory", {"node0", "100.0 GiB", "240.0 GiB"});
}

TEST(Assess, Limits) {
  Measurements job = healthy_job(2);
  job.nodes[1].open_files = 8 + 255;  // 8 ranks
  expect_only(job, Level::fail, "limits", {"node1", "ulimit -n is 263", "264"});
  job = healthy_job(2);
  job.nodes[0].locked_memory = 64 * kKiB;
  expect_only(job, Level::warn, "limits", {"node0", "ulimit -l is 64.0 KiB", "InfiniBand"});
  for (Node& node : job.nodes) node.fabric.clear();
  expect_no_problem(job);
}

TEST(Assess, Cores) {
  Measurements job = healthy_job(2);
  job.bindings = {"node1: ranks 4 and 5 share cores 0-1"};
  expect_only(job, Level::warn, "cores", {"ranks 4 and 5"});
}

}  // namespace
}  // namespace cohort::preflight::test
