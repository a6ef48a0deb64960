#include "mesh/mesh.hpp"

#include <string>

#include "base/counting.hpp"
#include "comm/counting_communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "comm/staged_communicator.hpp"

namespace cohort {
namespace {

/// The group of this rank along the axes. // Collective over: world, unless the group is of one rank
std::unique_ptr<Communicator> make_group(Communicator& world, const MeshShape& shape, MeshShape::Axes axes, std::string name) {
  if (shape.size(axes) == 1) return make_self_communicator(std::move(name));  // for every rank alike
  return world.split_by([&](int rank) { return shape.leader_of(rank, axes); }, std::move(name));
}

/// The same ranks and name, for device memory. // Collective over: host
std::unique_ptr<Communicator> make_device_group(Communicator& host, bool shared) {
  if (host.size() == 1) return make_self_communicator(host.name(), DeviceKind::gpu);
  if (counting()) return make_counting_communicator(host);
  return shared ? make_staged_communicator(host, host.name()) : make_nccl_communicator(host, host.name());
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape, DeviceKind device, bool shared_devices)
    : world_(world), shape_(shape), device_(device), shared_devices_(shared_devices) {
  check_product(shape, world.size());
  coordinates_ = shape.coordinates_of(world.rank());
  for (const Axis axis : kAxes) {
    host_groups_.axes[static_cast<std::size_t>(axis)] = make_group(world, shape, {axis}, std::string(name_of(axis)));
  }
  if (shape.size(Axis::dp) > 1 && shape.size(Axis::cp) > 1) {
    host_groups_.gradient = make_group(world, shape, {Axis::cp, Axis::dp}, "dp_cp");
  }
  if (device == DeviceKind::cpu) return;
  for (std::size_t i = 0; i < kAxes.size(); ++i)
    device_groups_.axes[i] = make_device_group(*host_groups_.axes[i], shared_devices);
  if (host_groups_.gradient) device_groups_.gradient = make_device_group(*host_groups_.gradient, shared_devices);
}

Mesh::Group Mesh::split(const std::function<int(int rank)>& color_of, const std::string& name) const {
  Group group{world_.split_by(color_of, name), nullptr};
  if (device_ != DeviceKind::cpu) group.device = make_device_group(*group.host, shared_devices_);
  return group;
}

}  // namespace cohort
