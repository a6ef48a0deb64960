// AdamW on the host, for a model whose optimizer state was offloaded to memory of the host (ZeRO-Offload, Ren et al. 2021,
// section 4) or to a file (ZeRO-Infinity, Rajbhandari et al. 2021, section 5). The update goes through the owned elements in
// blocks, and blocks overlap: while one is computed, gradients and moments of the next are on their way here, and the results of
// the last on their way back. Each element is updated by the same kernel as without offload, so on a CPU the bits are the same,
// whatever the blocks.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "config/run_config.hpp"
#include "ops/adamw.hpp"
#include "optim/device_blocks.hpp"
#include "optim/moment_store.hpp"
#include "optim/optimizer.hpp"

namespace cohort {

/// Elements of a block: 16 MiB of each moment, long enough for a disk to read at full speed.
inline constexpr Count kOffloadBlock = 4 * 1024 * 1024;

struct OffloadOptions {
  std::filesystem::path file;  // where the moments lie; "" = in memory of the host
  Count block_elements = kOffloadBlock;
  std::function<void()> poll;  // what gpu::synchronize() calls while the host waits for gradients
};

class OffloadedAdamW : public Optimizer {
 public:
  /// `values` of all segments lie on the host. The moments are zero. Throws Error(io) if their file cannot be made.
  OffloadedAdamW(std::vector<OwnedSegment> owned, const OptimizerSection& config, const OffloadOptions& options);

  /// Waits for all that the device has to do, since the host must know the decisions, and returns when values, moments and what
  /// layers read are where they belong. Throws Error(io) if the file cannot be read or written; the state is then of no more use.
  void step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const override;
  Moments moments(std::size_t segment) const override { return moments_->of_segment(segment); }

 private:
  struct Work {
    ElementBlock block;
    Tensor ranges;  // adamw_settings.hpp
  };
  void fetch(std::size_t work) const;
  void update(std::size_t work, const ops::AdamWStep& numbers, const Tensor& decisions) const;

  OptimizerSection config_;
  std::function<void()> poll_;
  std::vector<Work> work_;
  std::unique_ptr<DeviceBlocks> device_;
  std::unique_ptr<MomentStore> moments_;
};

}  // namespace cohort
