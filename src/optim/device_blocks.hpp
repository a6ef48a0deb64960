// How an optimizer on the host meets a model on a GPU: the gradients of a block come down, and what layers read goes up. What
// lies on the host already (on a CPU run everything) is handed out in place.
#pragma once

#include <array>
#include <optional>

#include "gpu/device.hpp"
#include "optim/slot_store.hpp"

namespace cohort {

class DeviceBlocks {
 public:
  struct BlockTensors {
    Tensor gradient;  // [end - begin] fp32, on the host
    Tensor compute;   // [end - begin] on the host, to be overwritten: goes to where layers read; the values themselves if in fp32
  };

  /// For blocks of `block_elements` at most. The runs outlive this.
  DeviceBlocks(const std::vector<Optimizer::Run>& runs, Count block_elements);

  /// Starts to bring the gradients of a block to the host. The compute stream must be done with them, and the lane's last block
  /// finished.
  void fetch(std::size_t lane, const ElementBlock& block);
  /// Waits for them.
  BlockTensors fetched(std::size_t lane) const;
  /// Starts to bring what was written to `compute` to the device, on the copy stream.
  void put_back(std::size_t lane);
  /// Waits until it is there; at once if the lane has nothing under way.
  void finish(std::size_t lane) const;

 private:
  struct Lane {
    Tensor gradient_memory, compute_memory;  // pinned, of the largest block; undefined where not needed
    Tensor target;                           // of `compute`, on the device; undefined if it is written in place
    BlockTensors tensors;
    std::optional<gpu::Event> down, up;  // the copies; none where nothing is copied
  };
  const std::vector<Optimizer::Run>& runs_;
  std::array<Lane, kLanes> lanes_;
};

}  // namespace cohort
