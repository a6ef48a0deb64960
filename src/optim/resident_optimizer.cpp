#include "optim/resident_optimizer.hpp"

namespace cohort {

ResidentOptimizer::ResidentOptimizer(std::vector<OwnedSegment> owned, const OptimizerSection& section, MatrixHolders holders)
    : Optimizer(std::move(owned), section) {
  std::vector<OwnMatrixPart> matrices;
  for (const Run& run : runs_) {
    const OwnedSegment& segment = run.segment;
    const DeviceKind device = segment.values.device();
    std::vector<Tensor>& slots = slots_.emplace_back();
    for (const SlotSpec& slot : run.slots()) {
      slots.push_back(Tensor::zeros("optimizer." + slot.name, segment.values.shape(), slot.dtype, device));
      for (const OwnedPiece& piece : segment.pieces) {
        if (piece.elements != piece.parameter->elements()) continue;
        piece.parameter->optimizer_state[slot.name] =
            slots.back().slice(piece.at, piece.at + piece.elements).reshaped(piece.parameter->shape);
      }
    }
    const bool whole = run.group->kind->matrices != nullptr;
    ranges_.push_back(whole ? Tensor{}
                            : decay_ranges(segment, *run.group, 0, segment.values.elements()).to(device, "optimizer.ranges"));
    if (!whole) continue;
    const UpdateTensors all = tensors_of(slots_.size() - 1);
    for (const OwnedPiece& piece : segment.pieces) {
      const auto part = [&](const Tensor& flat) { return flat.slice(piece.at, piece.at + piece.elements); };
      OwnMatrixPart own{piece, run.group, {part(all.values), part(all.compute), part(all.gradients), {}}};
      for (const Tensor& slot : all.slots) own.tensors.slots.push_back(part(slot));
      matrices.push_back(own);
    }
  }
  const bool shares = holders.group != nullptr;  // even a rank without a part may own matrices
  if (shares || !matrices.empty())
    matrices_ = std::make_unique<MatrixWork>(groups_, std::move(matrices), std::move(holders), owned_.front().values.device());
}

UpdateTensors ResidentOptimizer::tensors_of(std::size_t run) const {
  const OwnedSegment& segment = runs_[run].segment;
  return {segment.values, segment.compute, segment.gradients, slots_[run]};
}

void ResidentOptimizer::step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const ParameterGroup& group = *runs_[i].group;
    if (group.kind->update != nullptr)
      group.kind->update(exec, tensors_of(i), ranges_[i], step_of(group, learning_rate, step), decisions);
  }
  if (!matrices_) return;
  matrices_->step(
      exec, [&](const ParameterGroup& group) { return step_of(group, learning_rate, step); }, decisions);
}

std::vector<StateElements> ResidentOptimizer::slots(std::size_t run) const { return {slots_[run].begin(), slots_[run].end()}; }

}  // namespace cohort
