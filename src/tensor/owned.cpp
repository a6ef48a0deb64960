#include "tensor/owned.hpp"

#include "tensor/convert.hpp"

namespace cohort {

void OwnedSegment::values_changed() const {
  if (compute.raw() != values.raw()) convert(compute, values);
}

OwnedSegment whole_of(const ParameterRegistry& registry) {
  OwnedSegment segment{registry.flat_values(), registry.flat_compute(), registry.flat_gradients(), {}};
  for (const auto& parameter : registry.all())
    segment.pieces.push_back({parameter.get(), 0, parameter->offset, parameter->elements()});
  return segment;
}

}  // namespace cohort
