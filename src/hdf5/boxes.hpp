// A flat range of an array as boxes. Shards are often flat ranges (ZeRO cuts the row-major order of a tensor into equal pieces),
// while HDF5 selects boxes. Pure arithmetic, no HDF5.
#pragma once

#include <span>
#include <vector>

#include "base/units.hpp"

namespace cohort::hdf5 {

/// The elements whose index along dim d lies in [start[d], start[d] + count[d]).
struct Box {
  std::vector<Count> start;
  std::vector<Count> count;

  bool operator==(const Box&) const = default;
};

/// The product; 1 for no dims.
Count product_of(std::span<const Count> shape);

/// Boxes that together hold exactly the elements [begin, begin + elements) of the row-major order of `shape`, each once. They
/// come in that order: the first box is the first part of the range, and so on. At most 2 * dims - 1; none if elements is 0; for
/// the scalar shape {} one box without dims. The range must lie within the shape: 0 <= begin, 0 <= elements, begin + elements <=
/// product_of(shape).
std::vector<Box> boxes_of_range(std::span<const Count> shape, Count begin, Count elements);

}  // namespace cohort::hdf5
