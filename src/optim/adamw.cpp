#include "optim/adamw.hpp"

#include <cstring>

namespace cohort {
namespace {

Tensor decay_ranges(const OwnedSegment& segment, double weight_decay) {
  std::vector<ops::AdamWRange> ranges;
  for (const OwnedPiece& piece : segment.pieces) {
    const float decay = piece.parameter->decays ? static_cast<float>(weight_decay) : 0.0f;
    const Count end = piece.at + piece.elements;
    if (!ranges.empty() && ranges.back().weight_decay == decay) {
      ranges.back().end = end;  // padding between the two stays zero: it has no gradient
    } else {
      ranges.push_back({piece.at, end, decay});
    }
  }
  const Tensor host = Tensor::zeros("optimizer.ranges", {static_cast<Count>(ranges.size() * sizeof(ops::AdamWRange))}, DType::u8);
  if (!ranges.empty()) std::memcpy(host.raw(), ranges.data(), static_cast<std::size_t>(host.bytes()));
  return host.to(segment.values.device(), "optimizer.ranges");
}

}  // namespace

AdamW::AdamW(std::vector<OwnedSegment> owned, const OptimizerSection& config) : owned_(std::move(owned)), config_(config) {
  for (const OwnedSegment& segment : owned_) {
    const auto zeros = [&](const char* label) {
      return Tensor::zeros(label, segment.values.shape(), DType::f32, segment.values.device());
    };
    const Moments moments{zeros("optimizer.m"), zeros("optimizer.v")};
    for (const OwnedPiece& piece : segment.pieces) {
      if (piece.elements != piece.parameter->elements()) continue;
      const auto part = [&](const Tensor& flat) {
        return flat.slice(piece.at, piece.at + piece.elements).reshaped(piece.parameter->shape);
      };
      piece.parameter->optimizer_state = {{"m", part(moments.m)}, {"v", part(moments.v)}};
    }
    moments_.push_back(moments);
    ranges_.push_back(decay_ranges(segment, config.weight_decay));
  }
}

void AdamW::step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const {
  const ops::AdamWStep parameters{.learning_rate = static_cast<float>(learning_rate),
                                  .beta1 = static_cast<float>(config_.beta1),
                                  .beta2 = static_cast<float>(config_.beta2),
                                  .epsilon = static_cast<float>(config_.epsilon),
                                  .step = step + 1};
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    const OwnedSegment& segment = owned_[i];
    ops::adamw(exec, {segment.values, segment.compute, moments_[i].m, moments_[i].v, segment.gradients}, ranges_[i], parameters,
               decisions);
  }
}

}  // namespace cohort
