#include "optim/offloaded_adamw.hpp"

#include <algorithm>

#include "gpu/device.hpp"
#include "optim/adamw_settings.hpp"

namespace cohort {

OffloadedAdamW::OffloadedAdamW(std::vector<OwnedSegment> owned, const OptimizerSection& config, const OffloadOptions& options)
    : Optimizer(std::move(owned)), config_(config), poll_(options.poll) {
  COHORT_CHECK(options.block_elements > 0, "blocks of {} elements", options.block_elements);
  std::vector<Count> segments;
  Count largest = 0;
  for (std::size_t s = 0; s < owned_.size(); ++s) {
    const OwnedSegment& segment = owned_[s];
    COHORT_CHECK(segment.values.on_host(), "an offloaded optimizer needs the values on the host");
    const Count elements = segments.emplace_back(segment.values.elements());
    for (Count begin = 0; begin < elements; begin += options.block_elements) {
      const ElementBlock block{s, begin, std::min(elements, begin + options.block_elements)};
      work_.push_back({block, decay_ranges(segment, config.weight_decay, block.begin, block.end)});
      largest = std::max(largest, block.end - block.begin);
    }
  }
  device_ = std::make_unique<DeviceBlocks>(owned_, largest);
  moments_ = options.file.empty() ? make_moments_in_memory(segments) : make_moments_in_file(segments, largest, options.file);
}

void OffloadedAdamW::step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const {
  if (exec.gpu()) gpu::synchronize(poll_);
  const Tensor decided = decisions.to_host();
  if (reinterpret_cast<const ops::OptimizerScalars*>(decided.data<std::uint8_t>())->skip != 0) return;
  const ops::AdamWStep numbers = adamw_step(config_, learning_rate, step);
  if (!work_.empty()) fetch(0);
  for (std::size_t i = 0; i < work_.size(); ++i) {
    if (i + 1 < work_.size()) fetch(i + 1);
    update(i, numbers, decided);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    device_->finish(lane);
    moments_->finish(lane);
  }
}

void OffloadedAdamW::fetch(std::size_t work) const {
  const std::size_t lane = work % kLanes;
  device_->finish(lane);
  moments_->finish(lane);
  device_->fetch(lane, work_[work].block);
  moments_->fetch(lane, work_[work].block);
}

void OffloadedAdamW::update(std::size_t work, const ops::AdamWStep& numbers, const Tensor& decisions) const {
  const std::size_t lane = work % kLanes;
  const auto& [block, ranges] = work_[work];
  const DeviceBlocks::BlockTensors tensors = device_->fetched(lane);
  const MomentStore::BlockMoments moments = moments_->fetched(lane);
  ops::adamw(
      ops::Exec{DeviceKind::cpu},
      {owned_[block.segment].values.slice(block.begin, block.end), tensors.compute, moments.m, moments.v, tensors.gradient},
      ranges, numbers, decisions);
  device_->put_back(lane);
  moments_->put_back(lane);
}

}  // namespace cohort
