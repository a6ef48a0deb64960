// Messages around a ring of GPUs of one node, moved by the GPUs' copy engines. They take no multiprocessor, so that they run
// beside a matrix product, which takes them all: NCCL's kernels would wait for it, or it for them. Internal to the NCCL backend.
//
// Each rank has a slot of device memory that the rank before may write (CUDA IPC), and two counters, which operations of the
// driver write and wait for in stream order. Message n from rank r to rank r+1, on the communication streams of the two:
//
//   rank r                                 rank r+1
//   waits until n-1 was taken              waits until n has arrived
//   copies the message into the slot       copies the slot to where the message belongs
//   tells r+1 that n has arrived           tells r that n was taken
//
// In pieces, so that all but the last is out of the slot before the last has arrived: the copies out of it are on a stream of
// their own. What they cost is memory bandwidth. In return neither host has to learn where the tensors of the other lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/communicator.hpp"
#include "gpu/device.hpp"
#include "gpu/peer_memory.hpp"

namespace cohort {

class PeerRing {
 public:
  /// Null where the ranks cannot reach each other's memory: on several nodes, without peer access, or with NCCL_P2P_DISABLE=1,
  /// which is understood as NCCL does. `host`, of the same ranks, must outlive the ring. // Collective over: host
  static std::unique_ptr<PeerRing> make(Communicator& host);
  /// To be called when nothing is in flight. The own memory stays until the process ends: neighbours may have it open still, and
  /// a destructor cannot wait for ranks that may be lost.
  ~PeerRing();
  PeerRing(const PeerRing&) = delete;
  PeerRing& operator=(const PeerRing&) = delete;

  /// Bytes of the longest message that there is memory for.
  Bytes room() const { return room_; }
  /// Takes memory for messages of `bytes`, if there is less; waits for the device, and so for all messages that were sent, by all
  /// ranks alike. Throws SharedError(memory). // Collective over: host
  void reserve(Bytes bytes);

  // What follows puts its work on the communication stream. Messages have at most the bytes that were reserved.

  /// To the next rank. All ranks call send and receive alike, in turns: the destination of the receive is free from here on.
  void send(const void* data, Bytes bytes);
  /// From the rank before.
  void receive(void* data, Bytes bytes);
  /// `all` <- the blocks of all ranks in order; `own` may be this rank's place in it.
  void all_gather(const void* own, void* all, Bytes block);

  /// What waits for a neighbour on this rank's streams goes on, with whatever is in the slot: for a process that is about to end,
  /// and whose memory could not be freed else. Nothing may be sent or received any more.
  void let_go() noexcept;

 private:
  explicit PeerRing(Communicator& host) : host_(host) {}
  bool open(Bytes bytes);
  bool open_neighbours(const gpu::PeerHandle& own_handle);
  void close_neighbours() noexcept;
  void close();
  int next() const { return (host_.rank() + 1) % host_.size(); }
  int before() const { return (host_.rank() + host_.size() - 1) % host_.size(); }

  Communicator& host_;
  Bytes room_ = 0;
  std::byte* own_ = nullptr;  // memory of a rank: counters, then the slot
  std::byte* next_ = nullptr;
  std::byte* before_ = nullptr;
  std::uint32_t sent_ = 0;  // pieces
  std::uint32_t received_ = 0;
  gpu::SideStream taking_;
  gpu::Event begun_, taken_;  // of a turn, on the communication stream and on taking_
  bool let_go_ = false;
};

}  // namespace cohort
