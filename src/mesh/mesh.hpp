// The mesh of ranks as communicators: one for each axis, and the fused ones that training needs, made from the world
// communicator.
//
// Two families. axis() and gradient() are for tensors, and reach the memory that they lie in: MPI on a CPU, NCCL on a GPU.
// host_axis() and host_gradient() are over the same ranks, for values of the host, such as a count or a flag; on a CPU they are
// the same objects. A group of one rank is the self communicator.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "base/axis.hpp"
#include "base/device_kind.hpp"
#include "comm/communicator.hpp"
#include "mesh/mesh_shape.hpp"

namespace cohort {

class Mesh {
 public:
  /// Splits `world`, which is the host's and must outlive the mesh. Throws Error(config) if the shape does not fit it. On a
  /// GPU this process has its device open; with `shared_devices` ranks may share one, and device data goes through the host.
  /// A thread that counts gives a counting `world` and needs no device.
  // Collective over: world
  Mesh(Communicator& world, const MeshShape& shape, DeviceKind device = DeviceKind::cpu, bool shared_devices = false);

  const MeshShape& shape() const { return shape_; }
  /// This rank's place.
  const AxisValues& coordinates() const { return coordinates_; }
  int index(Axis axis) const { return coordinates_[axis]; }
  int size(Axis axis) const { return shape_.size(axis); }

  Communicator& world() const { return world_; }
  /// The group along one axis, named after it; its ranks are in the order of their index on the axis.
  Communicator& axis(Axis axis) const { return axis_of(data_groups(), axis); }
  /// dp and cp fused: the ranks with the same weights and different tokens, over which gradients are summed. Where one of the two
  /// has degree 1 it is the communicator of the other, so that two communicators never hold the same ranks.
  Communicator& gradient() const { return gradient_of(data_groups()); }
  /// A further group for tensors: the ranks of the world that have the same colour, in their order. `host` outlives `tensors`,
  /// and is it on a CPU.
  struct Group {
    std::unique_ptr<Communicator> host, device;
    Communicator& tensors() const { return device ? *device : *host; }
  };
  // Collective over: world
  Group split(const std::function<int(int rank)>& color_of, const std::string& name) const;
  /// The same groups, for values in host memory.
  Communicator& host_axis(Axis axis) const { return axis_of(host_groups_, axis); }
  Communicator& host_gradient() const { return gradient_of(host_groups_); }

 private:
  struct Groups {
    std::array<std::unique_ptr<Communicator>, kAxes.size()> axes;  // in the order of Axis
    std::unique_ptr<Communicator> gradient;                        // null: one of axes
  };
  static Communicator& axis_of(const Groups& groups, Axis axis) { return *groups.axes[static_cast<std::size_t>(axis)]; }
  Communicator& gradient_of(const Groups& groups) const {
    return groups.gradient ? *groups.gradient : axis_of(groups, shape_.size(Axis::cp) == 1 ? Axis::dp : Axis::cp);
  }
  const Groups& data_groups() const { return device_ == DeviceKind::cpu ? host_groups_ : device_groups_; }

  Communicator& world_;
  MeshShape shape_;
  AxisValues coordinates_;
  DeviceKind device_;
  bool shared_devices_;
  Groups host_groups_;
  Groups device_groups_;  // empty on a CPU; they use those of the host
};

}  // namespace cohort
