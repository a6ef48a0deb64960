#include "optim/offloaded_optimizer.hpp"

#include <algorithm>

#include "gpu/device.hpp"

namespace cohort {

OffloadedOptimizer::OffloadedOptimizer(std::vector<OwnedSegment> owned, const OptimizerSection& section,
                                       const OffloadOptions& options)
    : Optimizer(std::move(owned), section), poll_(options.poll) {
  COHORT_CHECK(options.block_elements > 0, "blocks of {} elements", options.block_elements);
  std::vector<SlotRun> slots;
  Count largest = 0;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const OwnedSegment& segment = runs_[r].segment;
    COHORT_CHECK(segment.values.on_host(), "an offloaded optimizer needs the values on the host");
    COHORT_CHECK(runs_[r].group->kind->update != nullptr, "optimizer {} cannot be offloaded: it needs whole matrices",
                 runs_[r].group->kind->rules.kind);
    const Count elements = segment.values.elements();
    slots.push_back({elements, runs_[r].slots()});
    for (Count begin = 0; begin < elements; begin += options.block_elements) {
      const ElementBlock block{r, begin, std::min(elements, begin + options.block_elements)};
      work_.push_back({block, decay_ranges(segment, *runs_[r].group, block.begin, block.end)});
      largest = std::max(largest, block.end - block.begin);
    }
  }
  device_ = std::make_unique<DeviceBlocks>(runs_, largest);
  slots_ = options.file.empty() ? make_slots_in_memory(slots) : make_slots_in_file(slots, largest, options.file);
}

void OffloadedOptimizer::step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const {
  if (exec.gpu()) gpu::synchronize(poll_);
  const Tensor decided = decisions.to_host();
  if (reinterpret_cast<const ops::OptimizerScalars*>(decided.data<std::uint8_t>())->skip != 0) return;
  if (!work_.empty()) fetch(0);
  for (std::size_t i = 0; i < work_.size(); ++i) {
    if (i + 1 < work_.size()) fetch(i + 1);
    update(i, step_of(*runs_[work_[i].block.run].group, learning_rate, step), decided);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    device_->finish(lane);
    slots_->finish(lane);
  }
}

void OffloadedOptimizer::fetch(std::size_t work) const {
  const std::size_t lane = work % kLanes;
  device_->finish(lane);
  slots_->finish(lane);
  device_->fetch(lane, work_[work].block);
  slots_->fetch(lane, work_[work].block);
}

void OffloadedOptimizer::update(std::size_t work, const GroupStep& step, const Tensor& decisions) const {
  const std::size_t lane = work % kLanes;
  const auto& [block, ranges] = work_[work];
  const Run& run = runs_[block.run];
  const DeviceBlocks::BlockTensors tensors = device_->fetched(lane);
  run.group->kind->update(
      ops::Exec{DeviceKind::cpu},
      {run.segment.values.slice(block.begin, block.end), tensors.compute, tensors.gradient, slots_->fetched(lane)}, ranges, step,
      decisions);
  device_->put_back(lane);
  slots_->put_back(lane);
}

}  // namespace cohort
