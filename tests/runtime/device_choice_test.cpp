// Which GPU each rank takes, and which choices are refused.
#include "runtime/device_choice.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using Ids = std::vector<std::string>;

RankDevices on(int rank, const std::string& host, int local_rank, const Ids& pci_ids) {
  return {rank, host, local_rank, pci_ids, /*why_none=*/pci_ids.empty() ? "no NVIDIA driver is loaded on this node" : ""};
}

/// Throws what check_devices() finds.
void judge(const std::vector<RankDevices>& all, bool share = false) {
  if (const auto problem = check_devices(all, share)) throw Error(*problem);
}

std::vector<std::string> chosen(const std::vector<RankDevices>& all) {
  std::vector<std::string> ids;
  for (const RankDevices& of : all) ids.push_back(of.pci_ids[static_cast<std::size_t>(device_index(of))]);
  return ids;
}

TEST(DeviceChoice, ANodeThatShowsAllItsGpusToEachRank) {
  const Ids gpus{"1B", "2C", "3D", "4E"};
  std::vector<RankDevices> all;
  for (int rank = 0; rank < 8; ++rank) all.push_back(on(rank, rank < 4 ? "n1" : "n2", rank % 4, gpus));
  EXPECT_EQ(chosen(all), (Ids{"1B", "2C", "3D", "4E", "1B", "2C", "3D", "4E"}));
  EXPECT_NO_THROW(judge(all));
}

// srun --gpus-per-task=1, or a wrapper that sets CUDA_VISIBLE_DEVICES: the only device is number 0, whatever the local rank.
TEST(DeviceChoice, ALauncherThatShowsEachRankOneGpu) {
  const std::vector<RankDevices> all{on(0, "n1", 0, {"1B"}), on(1, "n1", 1, {"2C"}), on(2, "n1", 2, {"3D"})};
  for (const RankDevices& of : all) EXPECT_EQ(device_index(of), 0);
  EXPECT_NO_THROW(judge(all));
}

TEST(DeviceChoice, ALauncherThatShowsEachRankTwoGpusOfItsOwn) {
  const std::vector<RankDevices> all{on(0, "n1", 0, {"1B", "2C"}), on(1, "n1", 1, {"3D", "4E"})};
  EXPECT_EQ(chosen(all), (Ids{"1B", "4E"}));
  EXPECT_NO_THROW(judge(all));
}

TEST(DeviceChoice, FewerRanksThanGpus) { EXPECT_NO_THROW(judge({on(0, "n1", 0, {"1B", "2C"})})); }

TEST(DeviceChoice, MoreRanksThanGpusAreRefusedWithATable) {
  const Ids gpus{"1B", "2C"};
  const std::vector<RankDevices> all{on(0, "n0", 0, gpus), on(1, "n1", 0, gpus), on(2, "n1", 1, gpus), on(3, "n1", 2, gpus)};
  EXPECT_ERROR(judge(all), ExitCode::launch, "ranks 1 and 3 would share one GPU", "n1 has 3 ranks and they see 2 GPUs",
               "--ntasks-per-node=2", "device.share = true", "visible GPUs", "PCI address", "\n1     n1", "\n3     n1");
  const std::string message = check_devices(all, false)->what();
  EXPECT_EQ(message.find("n0"), std::string::npos) << message;  // the table is of the host concerned
  EXPECT_NE(message.back(), '\n');
  EXPECT_NO_THROW(judge(all, /*share=*/true));
}

// Four ranks that see one GPU, of a node that has four: fewer ranks are not the cure.
TEST(DeviceChoice, TheOtherGpusOfTheNodeAreHidden) {
  std::vector<RankDevices> all;
  for (int rank = 0; rank < 4; ++rank) {
    all.push_back(on(rank, "n1", rank, {"1B"}));
    all.back().on_node = 4;
  }
  EXPECT_ERROR(judge(all), ExitCode::launch, "ranks 0 and 1 would share one GPU", "The node has 4 GPUs: let each rank see all",
               "--gpus-per-task=1", "CUDA_VISIBLE_DEVICES");
  for (RankDevices& of : all) of.on_node = 1;
  EXPECT_ERROR(judge(all), ExitCode::launch, "GPU. Start at most 1 per node");
}

// CUDA_VISIBLE_DEVICES=0 exported to all ranks: numbers differ from what they seem, addresses do not.
TEST(DeviceChoice, TheSameSingleGpuForAllIsRefused) {
  EXPECT_ERROR(judge({on(0, "n1", 0, {"1B"}), on(1, "n1", 1, {"1B"})}), ExitCode::launch, "ranks 0 and 1",
               "Start at most 1 per node");
  // Enough GPUs on the node, but shown so that two ranks take the same one.
  EXPECT_ERROR(judge({on(0, "n1", 0, {"1B", "2C"}), on(1, "n1", 1, {"1B"})}), ExitCode::launch, "ranks 0 and 1",
               "CUDA_VISIBLE_DEVICES");
  EXPECT_NO_THROW(judge({on(0, "n1", 0, {"1B"}), on(1, "n2", 0, {"1B"})}));  // the same address on two hosts is two GPUs
}

TEST(DeviceChoice, OneRankWithoutAGpu) {
  EXPECT_ERROR(judge({on(0, "n1", 0, {"1B"}), on(1, "n1", 1, {"2C"}), on(2, "n2", 0, {})}), ExitCode::launch,
               "rank 2 on n2 sees no GPU (no NVIDIA driver is loaded on this node)", "2 of 3 ranks can see one",
               "--gpus-per-task=1");
}

TEST(DeviceChoice, NoGpuAnywhere) {
  EXPECT_ERROR(judge({on(0, "n1", 0, {}), on(1, "n1", 1, {})}), ExitCode::launch,
               "no rank sees a GPU; on n1: no NVIDIA driver is loaded on this node");
  EXPECT_ERROR(judge({on(0, "n1", 0, {})}, /*share=*/true), ExitCode::launch, "no rank sees a GPU");
}

// A thousand ranks that all made the same mistake do not print a thousand lines.
TEST(DeviceChoice, TablesStayShort) {
  std::vector<RankDevices> all;
  for (int rank = 0; rank < 1000; ++rank) all.push_back(on(rank, "n1", rank, {"1B"}));
  const std::string message = check_devices(all, false)->what();
  EXPECT_NE(message.find("... and 968 more ranks of this host"), std::string::npos) << message;
}

}  // namespace
}  // namespace cohort::test
