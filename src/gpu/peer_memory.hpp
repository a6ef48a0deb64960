// Device memory of which other processes of the node write a part, and counters in it that streams write and wait for: CUDA IPC,
// and the driver's stream memory operations. For builds with CUDA: others have no second process with a device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpu/device.hpp"

namespace cohort::gpu {

/// Memory to share is allocated in whole granules: a handle of less would also open what shares the granule.
inline constexpr Bytes kShareGranule = 2 * kMiB;

/// What another process needs to open memory of this one; plain bytes, to be sent.
using PeerHandle = std::array<std::byte, 64>;

/// `memory` is a whole allocation of allocate(). Nothing if it cannot be shared.
std::optional<PeerHandle> share(void* memory);
/// The memory of another process, to be written from this one's device until close_peer(). Null if the devices cannot reach each
/// other, or the processes are not on one node.
std::byte* open_peer(const PeerHandle& handle);
void close_peer(std::byte* memory) noexcept;

// Counters lie in device memory, of this process or a peer, and are compared modulo 2^32.

/// In stream order, after which all that the stream did before is visible to who reads the value.
void write_counter(Stream stream, std::byte* counter, std::uint32_t value);
/// What is put on the stream from now on waits until the counter has reached `value`. The host does not wait.
void await_counter(Stream stream, std::byte* counter, std::uint32_t value);
/// Soon, whatever the other streams wait for. The host does not wait.
void write_counter_soon(std::byte* counter, std::uint32_t value);

/// One more stream, with the priority of the communication stream. Ordered against others only by events.
class SideStream {
 public:
  SideStream();
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Stream stream_ = nullptr;
};

}  // namespace cohort::gpu
