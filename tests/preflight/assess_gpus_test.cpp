// The verdict on made-up GPUs.
#include <fmt/ranges.h>

#include "preflight/job.hpp"

namespace cohort::preflight::test {
namespace {

TEST(AssessGpus, HealthyOnesPass) {
  for (const int nodes : {1, 2, 4}) expect_no_problem(healthy_job(nodes, 4));
  expect_no_problem(healthy_job(3, 1));
}

TEST(AssessGpus, AMissingGpu) {
  Measurements job = healthy_job(3, 4);
  job.nodes[1].gpus.pop_back();
  job.nodes[1].pairs.clear();
  expect_only(job, Level::fail, "GPUs", {"node1: 3 of the 4 GPUs that Slurm allocated are visible"});
  job.nodes[1].expected_gpus.reset();
  expect_only(job, Level::fail, "GPUs", {"node1: 3 GPUs where the others have 4"});
}

TEST(AssessGpus, ANodeWithoutADriver) {
  Measurements job = healthy_job(3, 2);
  job.nodes[2] = healthy_node(2, 0);
  job.nodes[2].no_gpu = "no NVIDIA driver is loaded on this node";
  job.nodes[2].nccl = job.nodes[0].nccl;
  job.nodes[2].driver = job.nodes[0].driver;
  expect_only(job, Level::fail, "GPUs", {"node2: 0 GPUs", "no NVIDIA driver is loaded"});
}

TEST(AssessGpus, AJobOnCpusWithABuildForGpusIsWarned) {
  Measurements job = healthy_job(2);
  job.cuda = true;
  for (Node& node : job.nodes) node.no_gpu = "no NVIDIA driver is loaded on this node";
  expect_only(job, Level::warn, "GPUs", {"no node has a GPU", "no NVIDIA driver"});
}

TEST(AssessGpus, Versions) {
  Measurements job = healthy_job(3, 2);
  job.nodes[0].nccl = "2.27.5";
  expect_only(job, Level::fail, "NCCL", {"node0: 2.27.5", "2.28.3"});
  job = healthy_job(3, 2);
  job.nodes[2].driver = "570.1";
  expect_only(job, Level::warn, "driver", {"node2: 570.1"});
  job = healthy_job(1, 2);
  job.nodes[0].driver_cuda = "12.4";
  expect_only(job, Level::fail, "CUDA", {"node0", "12.4", "13.0"});
  job.nodes[0].runtime_cuda = "12.10";  // is newer than 12.4, although it is not by the alphabet
  expect_only(job, Level::warn, "CUDA", {"node0", "12.10"});
}

TEST(AssessGpus, ASlowLinkToTheHost) {
  Measurements job = healthy_job(4, 4);
  job.nodes[3].gpus[1].from_device = 3.1e9;
  expect_only(job, Level::fail, "GPU to host", {"node3 GPU 0000:2B:00.0: 3.1 GB/s", "54 GB/s (median)"});
  job = healthy_job(1, 1);
  job.nodes[0].gpus[0].to_device = 3e9;  // nobody to be compared with: the floor
  expect_only(job, Level::warn, "host to GPU", {"node0", "below 6 GB/s"});
}

TEST(AssessGpus, SlowMemoryAndClock) {
  Measurements job = healthy_job(2, 4);
  job.nodes[1].gpus[0].memory = 2000e9;
  expect_only(job, Level::fail, "GPU memory", {"node1 GPU 0000:1B:00.0", "2e+03 GB/s"});
  job = healthy_job(2, 4);
  job.nodes[0].gpus[3].clock_mhz = 1200;
  expect_only(job, Level::warn, "GPU clocks", {"node0 GPU 0000:4B:00.0: 1200 MHz", "1980"});
}

// Pairs of one place are compared over nodes; within a node some pairs may well be slower than others.
TEST(AssessGpus, Pairs) {
  Measurements job = healthy_job(3, 4);
  for (Node& node : job.nodes) node.pairs[2].speed = 25e9;
  expect_no_problem(job);
  job.nodes[1].pairs[2].speed = 10e9;
  expect_only(job, Level::fail, "GPU to GPU", {"node1 GPU 0000:1B:00.0 to 0000:4B:00.0: 10 GB/s", "25 GB/s"});
  job = healthy_job(1, 4);
  job.nodes[0].pairs[2].speed = 25e9;
  expect_only(job, Level::warn, "GPU to GPU", {"25 GB/s", "350 GB/s"});
  job = healthy_job(1, 2);
  job.nodes[0].pairs[1].peer_access = false;
  expect_only(job, Level::warn, "peer access", {"node0", "0000:2B:00.0 cannot access 0000:1B:00.0 directly"});
}

TEST(AssessGpus, Health) {
  Measurements job = healthy_job(2, 2);
  job.nodes[1].gpus[1].uncorrected_errors = 3;
  expect_only(job, Level::warn, "GPU health", {"node1 GPU 0000:2B:00.0", "3 uncorrected"});
  job = healthy_job(2, 2);
  job.nodes[0].gpus[0].remap_failed = true;
  expect_only(job, Level::fail, "GPU health", {"node0 GPU 0000:1B:00.0", "replaced"});
  job = healthy_job(2, 2);
  job.nodes[0].gpus[0].remap_pending = true;
  expect_only(job, Level::warn, "GPU health", {"reset"});
  job = healthy_job(2, 2);
  job.nodes[0].gpus[1].slowed = {"power limit"};  // what a card at full load does
  expect_no_problem(job);
  job.nodes[0].gpus[1].slowed = {"heat (hardware)"};
  job.nodes[0].gpus[1].slowed_by_fault = true;
  expect_only(job, Level::fail, "GPU health", {"node0 GPU 0000:2B:00.0", "heat (hardware)"});
}

TEST(AssessGpus, WhatCouldNotBeMeasured) {
  Measurements job = healthy_job(2, 2);
  Gpu& gpu = job.nodes[1].gpus[0];
  gpu.to_device = gpu.from_device = gpu.memory = 0.0;
  gpu.problem = "copying: an illegal memory access was encountered";
  expect_only(job, Level::fail, "GPU health", {"node1 GPU 0000:1B:00.0", "illegal memory access"});
  job = healthy_job(2, 2);
  job.nccl = 0.0;
  job.nccl_problem = "a peer exited";
  expect_only(job, Level::fail, "NCCL all-reduce", {"a peer exited"});
  job.nccl_problem = "";
  job.gpu_places = "ranks 0 and 1 would share one GPU";
  expect_only(job, Level::fail, "NCCL all-reduce", {"share one GPU"});
}

}  // namespace
}  // namespace cohort::preflight::test
