#include "optim/optimizer.hpp"

namespace cohort {

Optimizer::Optimizer(std::vector<OwnedSegment> owned, const OptimizerSection& section)
    : groups_(section), owned_(std::move(owned)) {
  for (const OwnedSegment& segment : owned_) {
    for (const UpdateRun& run : runs_of(segment.pieces, segment.values.elements(), groups_))
      runs_.push_back({segment_of(segment, run), run.group});
  }
}

}  // namespace cohort
