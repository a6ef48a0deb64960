// Which GPU a rank computes on: its place among the ranks of its node, modulo the devices that it sees. The modulo covers
// launchers that show each rank one device of its own (srun --gpus-per-task=1, a wrapper that sets CUDA_VISIBLE_DEVICES): that
// device is number 0 for each of them, whatever their local rank.
//
// Two ranks on one physical device are refused, because NCCL cannot join them and both would run at half speed unseen: devices
// are compared by host and PCI address, since their numbers mean something else to each process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace cohort {

/// What one rank says of its devices.
struct RankDevices {
  int rank = 0;
  std::string host;
  int local_rank = 0;
  std::vector<std::string> pci_ids;  // of the visible devices, in the order of their numbers
  std::string why_none;              // why `pci_ids` is empty
  int on_node = 0;                   // GPUs that the driver has on this node, visible or not; 0: unknown
};

/// The number of the device, among those that the rank sees. It must see one.
int device_index(const RankDevices& of);

/// What is wrong with the choices of all ranks, if anything: a rank without a device, or one device for several ranks (unless
/// `share`). The message has a table of the ranks of the first host concerned, and says what to do. `all` is in rank order.
std::optional<Error> check_devices(const std::vector<RankDevices>& all, bool share);

/// The device of this rank. Throws SharedError(launch), on all ranks alike, with the message of check_devices().
// Collective over: world
int choose_device(const std::string& host, int local_rank, bool share);

/// What device.kind = "auto" asks: "" if every rank can have a GPU of its own (with `share`: any GPU), else the reason, the same
/// on all ranks, as in "no rank sees a GPU; on n1: no NVIDIA driver is loaded". Throws as choose_device() does if CUDA fails.
// Collective over: world
std::string why_no_gpus(const std::string& host, int local_rank, bool share);

}  // namespace cohort
