// How much memory the tensors of this process take, by their label: what a plan is held against (src/plan). Every tensor that
// owns memory is counted from its making to its end, on the host and on the GPU alike; an arena's or a pool's memory is counted
// under the label of the arena or pool. Not counted: what libraries take for themselves (NCCL, cuBLASLt), and what comes from
// gpu::allocate directly, such as the workspace, and the slot of a ring of GPUs (comm/peer_ring.hpp).
//
// The first word of a label, before a point, says which kind of memory it is: parameters, gradients, optimizer, activations or
// buffers (memory_kind.hpp). What has another first word belongs to none: positions, inputs, copies for a moment.
//
// A thread that counts (base/counting.hpp) has an account of its own, in which tensors without memory have the bytes that they
// would have.
//
// A tensor is made a few hundred times in a run, so a map behind a lock costs nothing that could be measured.
#pragma once

#include <map>
#include <string>

#include "base/device_kind.hpp"
#include "base/units.hpp"

namespace cohort {

struct MemoryUse {
  Bytes live = 0;  // now
  Bytes peak = 0;  // most at once since the start, or since reset_memory_peaks()
  Bytes used = 0;  // arenas and pools: most that they had handed out at once, each at its own time; else 0
};

/// By label, without the prefix "cohort::". Safe from any thread, as all here.
std::map<std::string, MemoryUse> memory_account(DeviceKind device);
/// Peaks start over from what is live, and what arenas and pools that are gone had used is forgotten.
void reset_memory_peaks();
/// What scratch files of the optimizer take on a disk, of the thread that counts since it began to.
Bytes counted_disk();

/// For who allocates: `bytes` more under this label, or less.
void count_memory(const std::string& label, DeviceKind device, Bytes bytes);
/// For arenas and pools, whenever they have handed out more at once than ever before: by how much.
void count_used_memory(const std::string& label, DeviceKind device, Bytes growth);
/// Nothing unless the thread counts.
void count_disk(Bytes bytes);
/// For CountingScope: the account of this thread begins empty.
void forget_counted_memory();

}  // namespace cohort
