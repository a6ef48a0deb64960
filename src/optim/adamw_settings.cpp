#include "optim/adamw_settings.hpp"

#include <algorithm>
#include <cstring>

namespace cohort {

ops::AdamWStep adamw_step(const OptimizerSection& config, double learning_rate, Count step) {
  return {.learning_rate = static_cast<float>(learning_rate),
          .beta1 = static_cast<float>(config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .epsilon = static_cast<float>(config.epsilon),
          .step = step + 1};
}

Tensor decay_ranges(const OwnedSegment& segment, double weight_decay, Count begin, Count end) {
  std::vector<ops::AdamWRange> ranges;
  for (const OwnedPiece& piece : segment.pieces) {
    const Count first = std::max(begin, piece.at) - begin, last = std::min(end, piece.at + piece.elements) - begin;
    if (first >= last) continue;
    const float decay = piece.parameter->decays ? static_cast<float>(weight_decay) : 0.0f;
    if (!ranges.empty() && ranges.back().weight_decay == decay) {
      ranges.back().end = last;  // padding between the two stays zero: it has no gradient
    } else {
      ranges.push_back({first, last, decay});
    }
  }
  const Tensor host = Tensor::zeros("optimizer.ranges", {static_cast<Count>(ranges.size() * sizeof(ops::AdamWRange))}, DType::u8);
  if (!ranges.empty()) std::memcpy(host.raw(), ranges.data(), static_cast<std::size_t>(host.bytes()));
  return host;
}

}  // namespace cohort
