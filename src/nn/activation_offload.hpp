// What blocks keep for backward, in memory of the host until then: for samples so long, or models so deep, that it would not fit
// beside the weights. (Rhu et al. 2016, "vDNN", section III: offload and prefetch layer by layer.)
//
// On the device there are kLanes lanes, each with what one block keeps. Block i of a pass has lane i % kLanes: forward fills it,
// and it is copied to the host while the next blocks run; backward finds it there again, at the same addresses, since copies back
// begin two blocks ahead. So what a block saves are the tensors that it would save without offload.
//
//   compute stream   | block 0 | block 1 | block 2 | block 3 ...      ... | block 3' | block 2' | block 1' | block 0'
//   copy stream                | 0 to host | 1 to host | ...                | 1 back | 0 back |
//
// Events order the two streams, and the host waits for neither: a lane is filled again when its copy is done (open), copied out
// when its block has run (keep), copied into when the block that had it has run (fetch), and read when it is there (await). Host
// memory is pinned, taken once, and touched by the copy stream alone, which goes in order: it can be given away while a copy from
// it is still to come. Passes may follow in any order, as in pipelines: each has its own host memory.
//
// From the end of a block's forward to the start of that of the next but one its copy has the time of one block; what does not
// fit in there makes the compute stream wait. The last blocks of a forward pass are still in their lanes if their backward is
// next.
//
// On a CPU lanes and host buffers lie in the same memory, copies happen at once, and nothing is gained: for tests.
//
// Where not all blocks of a pass are offloaded (Decoder), block i here is number i of those that are.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gpu/device.hpp"
#include "tensor/arena.hpp"
#include "tensor/buffer_pool.hpp"

namespace cohort {

class ActivationOffload {
 public:
  static constexpr std::size_t kLanes = 3;

  explicit ActivationOffload(DeviceKind device);

  /// What it takes: bytes of each lane, and how many host buffers of each size.
  struct Memory {
    std::array<Bytes, kLanes> lanes{};
    std::map<Bytes, Count> host;
  };
  /// So far, at most.
  Memory held() const;
  /// Takes that much now, so that no step has to. Call it first. Throws Error(memory) with the sizes.
  void reserve(const Memory& memory);

  /// What one block kept, until its backward.
  struct Kept {
    std::uint64_t ticket = 0;
    std::size_t lane = 0;
    struct Part {
      Tensor here, host;  // bytes
    };
    std::vector<Part> parts = {};
  };

  /// Forward: the empty lane of block `block` of the pass, for what the block is to keep, its input first.
  Arena& open(std::size_t block);
  /// The lane that was opened last for it.
  Arena& lane(std::size_t block) { return lanes_[block % kLanes].arena; }
  /// The block has been put on the compute stream: what is in its lane goes to the host.
  Kept keep(std::size_t block);

  /// Backward: brings it back to where it was, unless it is still there. The lane must not be that of a block whose backward has
  /// begun and not been released.
  void fetch(const Kept& kept);
  /// What is put on the compute stream from now on finds it.
  void await(const Kept& kept);
  /// The block's backward has been put on the compute stream: lane and host memory are free.
  void release(const Kept& kept);

 private:
  struct Lane {
    Arena arena;
    std::uint64_t holds = 0;                               // whose values are there, or on their way there; 0: nobody's
    bool arriving = false;                                 // and nobody has waited for them yet
    std::optional<gpu::Event> computed = {}, copied = {};  // last work on it of the two streams; none on a CPU
    std::optional<std::size_t> copy = {};  // that nobody waits for yet, as listeners know it (base/counting_listener.hpp)
  };
  Tensor take_host(Bytes bytes);
  void copy_out(Lane& lane, Kept& kept);
  // The copy stream goes on after what the compute stream has done with the lane.
  void order_after_compute(const Lane& lane) const;
  // The compute stream goes on after the lane's copy.
  void order_after_copy(Lane& lane) const;
  void copy(const Tensor& to, const Tensor& from) const;
  void note_copies(const char* operation, Lane& lane, Bytes bytes) const;

  DeviceKind device_;
  std::array<Lane, kLanes> lanes_;
  BufferPool host_;
  std::map<Bytes, Count> host_made_;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace cohort
