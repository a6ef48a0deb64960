#include "optim/clip.hpp"

namespace cohort {

void add_squares(const ops::Exec& exec, std::span<const OwnedSegment> owned, const StepScalars& scalars) {
  for (const OwnedSegment& segment : owned) {
    // Runs of pieces that count; what lies between pieces is zero.
    Count begin = 0, end = 0;
    const auto add_run = [&] {
      if (begin < end) ops::sum_of_squares(exec, scalars.squares(), segment.gradients.slice(begin, end));
    };
    for (const OwnedPiece& piece : segment.pieces) {
      if (piece.parameter->shard.counts) {
        end = piece.at + piece.elements;
      } else {
        add_run();
        begin = end = piece.at + piece.elements;
      }
    }
    add_run();
  }
}

void decide_update(const ops::Exec& exec, const StepScalars& scalars, double loss_scale, double clip_norm) {
  ops::finish_gradient_norm(exec, scalars.norm(), scalars.decisions(), scalars.squares(), scalars.loss(), loss_scale, clip_norm);
}

}  // namespace cohort
