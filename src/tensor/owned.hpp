// What the optimizer of one rank updates: all parameters that the rank holds, or a shard of them (ZeRO).
#pragma once

#include <vector>

#include "tensor/parameter.hpp"

namespace cohort {

/// Elements [begin, begin + elements) of this rank's part of a parameter, which lie at [at, at + elements) in flat tensors.
struct OwnedPiece {
  Parameter* parameter;
  Count begin;
  Count at;
  Count elements;
};

/// Flat tensors of as many elements, and what lies in them, in order. What lies between pieces is padding.
struct OwnedSegment {
  Tensor values;     // fp32, where the optimizer runs: if it was offloaded, on the host
  Tensor compute;    // what forward and backward read: `values` itself, or their copy in 16 bits or on the device
  Tensor gradients;  // fp32
  std::vector<OwnedPiece> pieces;

  /// `values` were set by anything but the optimizer: brings the copy up to date.
  void values_changed() const;
};

/// All trained parameters of an allocated registry.
OwnedSegment whole_of(const ParameterRegistry& registry);
/// All frozen ones, which nobody updates: without gradients.
OwnedSegment frozen_of(const ParameterRegistry& registry);

}  // namespace cohort
