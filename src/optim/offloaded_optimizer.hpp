// An optimizer on the host, for a model whose optimizer state was offloaded to memory of the host (ZeRO-Offload, Ren et al. 2021,
// section 4) or to a file (ZeRO-Infinity, Rajbhandari et al. 2021, section 5). The update goes through the owned elements in
// blocks, and blocks overlap: while one is computed, gradients and slots of the next are on their way here, and the results of
// the last on their way back. Each element is updated by the same kernel as without offload, so on a CPU the bits are the same,
// whatever the blocks. So it is for optimizers that update elements, not whole matrices.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "optim/device_blocks.hpp"
#include "optim/optimizer.hpp"
#include "optim/slot_store.hpp"

namespace cohort {

/// Elements of a block: 16 MiB of each slot, long enough for a disk to read at full speed.
inline constexpr Count kOffloadBlock = 4 * 1024 * 1024;

struct OffloadOptions {
  std::filesystem::path file;  // where the slots lie; "" = in memory of the host
  Count block_elements = kOffloadBlock;
  std::function<void()> poll;  // what gpu::synchronize() calls while the host waits for gradients
};

class OffloadedOptimizer : public Optimizer {
 public:
  /// `values` of all segments lie on the host. The slots are zero. Throws Error(io) if their file cannot be made.
  OffloadedOptimizer(std::vector<OwnedSegment> owned, const OptimizerSection& section, const OffloadOptions& options);

  /// Waits for all that the device has to do, since the host must know the decisions, and returns when values, slots and what
  /// layers read are where they belong. Throws Error(io) if the file cannot be read or written; the state is then of no more use.
  void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const override;
  std::vector<StateElements> slots(std::size_t run) const override { return slots_->of_run(run); }

 private:
  struct Work {
    ElementBlock block;
    Tensor ranges;  // decay_ranges
  };
  void fetch(std::size_t work) const;
  void update(std::size_t work, const GroupStep& step, const Tensor& decisions) const;

  std::function<void()> poll_;
  std::vector<Work> work_;
  std::unique_ptr<DeviceBlocks> device_;
  std::unique_ptr<SlotStore> slots_;
};

}  // namespace cohort
