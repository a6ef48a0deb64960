#include "tensor/owned.hpp"

#include "tensor/convert.hpp"

namespace cohort {

void OwnedSegment::values_changed() const {
  if (compute.raw() == values.raw()) return;
  if (compute.device() == values.device()) return convert(compute, values);
  if (compute.dtype() == values.dtype()) return compute.copy_from(values);
  const Tensor rounded = Tensor::zeros("owned.rounded", compute.shape(), compute.dtype(), values.device());
  convert(rounded, values);
  compute.copy_from(rounded);
}

OwnedSegment whole_of(const ParameterRegistry& registry) {
  OwnedSegment segment{registry.flat_values(), registry.flat_compute(), registry.flat_gradients(), {}};
  for (Parameter* parameter : registry.trained())
    segment.pieces.push_back({parameter, 0, parameter->offset, parameter->elements()});
  return segment;
}

OwnedSegment frozen_of(const ParameterRegistry& registry) {
  OwnedSegment segment{registry.flat_frozen_values(), registry.flat_frozen_compute(), {}, {}};
  for (const auto& parameter : registry.all()) {
    if (parameter->frozen) segment.pieces.push_back({parameter.get(), 0, parameter->offset, parameter->elements()});
  }
  return segment;
}

}  // namespace cohort
