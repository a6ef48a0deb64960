#include "optim/adamw.hpp"

#include "optim/adamw_settings.hpp"

namespace cohort {

AdamW::AdamW(std::vector<OwnedSegment> owned, const OptimizerSection& config) : Optimizer(std::move(owned)), config_(config) {
  for (const OwnedSegment& segment : owned_) {
    const auto zeros = [&](const char* label) {
      return Tensor::zeros(label, segment.values.shape(), DType::f32, segment.values.device());
    };
    const SegmentMoments moments{zeros("optimizer.m"), zeros("optimizer.v")};
    for (const OwnedPiece& piece : segment.pieces) {
      if (piece.elements != piece.parameter->elements()) continue;
      const auto part = [&](const Tensor& flat) {
        return flat.slice(piece.at, piece.at + piece.elements).reshaped(piece.parameter->shape);
      };
      piece.parameter->optimizer_state = {{"m", part(moments.m)}, {"v", part(moments.v)}};
    }
    moments_.push_back(moments);
    ranges_.push_back(
        decay_ranges(segment, config.weight_decay, 0, segment.values.elements()).to(segment.values.device(), "optimizer.ranges"));
  }
}

void AdamW::step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const {
  const ops::AdamWStep numbers = adamw_step(config_, learning_rate, step);
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    const OwnedSegment& segment = owned_[i];
    ops::adamw(exec, {segment.values, segment.compute, moments_[i].m, moments_[i].v, segment.gradients}, ranges_[i], numbers,
               decisions);
  }
}

}  // namespace cohort
