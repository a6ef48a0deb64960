// The mesh of ranks as communicators: one for each axis, and the fused ones that training needs, made from the world
// communicator.
#pragma once

#include <array>
#include <memory>

#include "base/axis.hpp"
#include "comm/communicator.hpp"
#include "mesh/mesh_shape.hpp"

namespace cohort {

class Mesh {
 public:
  /// Splits `world`, which must outlive the mesh. Throws Error(config) if the shape does not fit it. // Collective over: world
  Mesh(Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  /// This rank's place.
  const AxisValues& coordinates() const { return coordinates_; }
  int index(Axis axis) const { return coordinates_[axis]; }
  int size(Axis axis) const { return shape_.size(axis); }

  Communicator& world() const { return world_; }
  /// The group along one axis, named after it; its ranks are in the order of their index on the axis.
  Communicator& axis(Axis axis) const { return *axes_[static_cast<std::size_t>(axis)]; }
  /// dp and cp fused: the ranks with the same weights and different tokens, over which gradients are summed. Where one of the two
  /// has degree 1 it is the communicator of the other, so that two communicators never hold the same ranks.
  Communicator& gradient() const { return gradient_ ? *gradient_ : axis(shape_.size(Axis::cp) == 1 ? Axis::dp : Axis::cp); }

 private:
  Communicator& world_;
  MeshShape shape_;
  AxisValues coordinates_;
  std::array<std::unique_ptr<Communicator>, kAxes.size()> axes_;  // in the order of Axis
  std::unique_ptr<Communicator> gradient_;                        // null: one of axes_
};

}  // namespace cohort
