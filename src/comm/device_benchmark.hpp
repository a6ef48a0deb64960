// Measures the collectives that training on GPUs is made of, on device memory: all-reduce, reduce-scatter and all-gather, by
// message size. What `cohort comm --device cuda` prints.
//
// Time: device time around several operations in a row, each of which starts when the one before is done, as a step that waits
// for them would see it. Where the host needs longer to start one than the network to carry it, it is the host's time. Each
// repeat counts for its slowest rank; the median of the repeats is reported. Bus bandwidth: bytes that must leave each rank, over
// the time: 2 (n-1)/n x bytes for the all-reduce, (n-1)/n x bytes for the other two, of n ranks and a buffer of `bytes` (n
// blocks). It compares with the bandwidth of the links whatever n is; 0 for one rank.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "comm/communicator.hpp"

namespace cohort {

enum class DeviceCollective { all_reduce, reduce_scatter, all_gather };
inline constexpr std::array<DeviceCollective, 3> kDeviceCollectives{
    DeviceCollective::all_reduce, DeviceCollective::reduce_scatter, DeviceCollective::all_gather};
/// "all_reduce", ...
std::string_view name_of(DeviceCollective collective);

struct DeviceBenchmark {
  Bytes min_bytes = 4;
  Bytes max_bytes = 256 * kMiB;
  int repeats = 0;  // 0: as many as fit a fifth of a second, from 3 to 20
};

struct DeviceTiming {
  Bytes bytes;  // of the whole buffer
  DeviceCollective collective;
  int repeats;
  double seconds;  // of one operation
  double bus_bytes_per_second;
};

/// Throws Error(usage) as check(AllReduceBenchmark) does.
void check(const DeviceBenchmark& benchmark);

/// `device` moves fp32 between the devices that the ranks have open; `host` is over the same ranks. Calls `on_size` on all ranks
/// with the timings of each message size, as soon as they are there. Results are checked before anything is timed: a wrong one is
/// an Error(internal). // Collective over: device
void run_device_benchmark(Communicator& device, Communicator& host, const DeviceBenchmark& benchmark,
                          const std::function<void(const std::vector<DeviceTiming>&)>& on_size);

}  // namespace cohort
