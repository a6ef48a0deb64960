#include "optim/device_blocks.hpp"

namespace cohort {

DeviceBlocks::DeviceBlocks(const std::vector<Optimizer::Run>& runs, Count block_elements) : runs_(runs) {
  if (runs.empty()) return;
  // All segments are alike in what lies where, and in which type.
  const OwnedSegment& any = runs.front().segment;
  for (Lane& lane : lanes_) {
    if (!any.gradients.on_host()) {
      lane.gradient_memory = Tensor::pinned("optimizer.gradient_block", {block_elements});
      lane.down.emplace();
    }
    if (any.compute.on_host()) continue;
    lane.up.emplace();
    if (any.compute.dtype() != DType::f32)
      lane.compute_memory = Tensor::pinned("optimizer.compute_block", {block_elements}, any.compute.dtype());
  }
}

void DeviceBlocks::fetch(std::size_t number, const ElementBlock& block) {
  Lane& lane = lanes_[number];
  const OwnedSegment& segment = runs_[block.run].segment;
  const Count elements = block.end - block.begin;
  lane.tensors = {segment.gradients.slice(block.begin, block.end), segment.compute.slice(block.begin, block.end)};
  if (lane.down) {
    const Tensor on_device = lane.tensors.gradient;
    lane.tensors.gradient = lane.gradient_memory.slice(0, elements);
    gpu::copy_async(lane.tensors.gradient.raw(), on_device.raw(), on_device.bytes(), gpu::compute_stream());
    lane.down->record(gpu::compute_stream());
  }
  if (lane.up) {
    lane.target = lane.tensors.compute;
    lane.tensors.compute =
        lane.compute_memory.defined() ? lane.compute_memory.slice(0, elements) : segment.values.slice(block.begin, block.end);
  }
}

DeviceBlocks::BlockTensors DeviceBlocks::fetched(std::size_t number) const {
  if (lanes_[number].down) lanes_[number].down->wait();
  return lanes_[number].tensors;
}

void DeviceBlocks::put_back(std::size_t number) {
  Lane& lane = lanes_[number];
  if (!lane.up) return;
  gpu::copy_async(lane.target.raw(), lane.tensors.compute.raw(), lane.target.bytes(), gpu::copy_stream());
  lane.up->record(gpu::copy_stream());
}

void DeviceBlocks::finish(std::size_t number) const {
  if (lanes_[number].up) lanes_[number].up->wait();
}

}  // namespace cohort
