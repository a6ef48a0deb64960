// Where the memory of the open GPU has gone: to which tensors, arenas and pools, to others, and how much of the rest could still
// be had in one piece. What the log says after the first step, and the error when memory runs out.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/units.hpp"
#include "tensor/memory_account.hpp"

namespace cohort {

struct DeviceMemoryReport {
  Bytes total = 0;
  Bytes free = 0;
  std::optional<Bytes> largest;              // block that an allocation would get now; below `free` if memory is in pieces
  std::map<std::string, MemoryUse> tensors;  // the account, by label
};

/// Of the open device. `try_largest` looks for the largest block by trying (gpu::largest_allocation()): not while another process
/// on the same device may want memory.
DeviceMemoryReport device_memory_report(bool try_largest);

/// One line: "of 139.8 GiB of device memory 60.2 GiB are free (largest block 60.1 GiB); tensors have 75.0 GiB: activations
/// 40.0 GiB (38.1 GiB used), optimizer 20.0 GiB, ...; others 4.6 GiB (CUDA, NCCL, cuBLASLt, other processes)". Labels in the
/// order of their size, up to 8 of them; of arenas and pools also the most that was ever used at once, the rest of which is
/// reserved for nothing.
std::string describe(const DeviceMemoryReport& report);

}  // namespace cohort
