// How fast the devices that this process sees move data: what a preflight measures (src/preflight). Each function makes a device
// current for its duration, takes memory on it and gives it back; none needs open(). Errors throw Error(internal) or
// Error(memory) with CUDA's own words. In builds without CUDA all throw.
#pragma once

#include <functional>

#include "base/units.hpp"

namespace cohort::gpu {

/// Bytes per second, each of the fastest of a few copies: the one that was disturbed least.
struct DeviceSpeeds {
  double to_device = 0.0;    // from pinned memory of the host
  double from_device = 0.0;  // to pinned memory of the host
  double memory = 0.0;       // within its memory: bytes read and written
};

/// Copies of `bytes`. `under_load` is called while copies within the device's memory keep it busy, for about a quarter of a
/// second: the moment to ask for its clock and temperature.
DeviceSpeeds measure_device(int index, Bytes bytes, const std::function<void()>& under_load);

/// Whether `from` can reach the memory of `to` without the host (NVLink, or PCIe peer to peer).
bool has_peer_access(int from, int to);
/// Bytes per second of a copy between two devices' memories: directly where there is peer access, else through the host.
double measure_pair(int from, int to, Bytes bytes);

}  // namespace cohort::gpu
