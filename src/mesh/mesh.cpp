#include "mesh/mesh.hpp"

#include <string>

#include "comm/self_communicator.hpp"

namespace cohort {
namespace {

/// The group of this rank along the axes. // Collective over: world, unless the group is of one rank
std::unique_ptr<Communicator> make_group(Communicator& world, const MeshShape& shape, MeshShape::Axes axes, std::string name) {
  if (shape.size(axes) == 1) return make_self_communicator(std::move(name));  // for every rank alike
  return world.split(shape.leader_of(world.rank(), axes), world.rank(), std::move(name));
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape) : world_(world), shape_(shape) {
  check_product(shape, world.size());
  coordinates_ = shape.coordinates_of(world.rank());
  for (const Axis axis : kAxes)
    axes_[static_cast<std::size_t>(axis)] = make_group(world, shape, {axis}, std::string(name_of(axis)));
  if (shape.size(Axis::dp) > 1 && shape.size(Axis::cp) > 1) gradient_ = make_group(world, shape, {Axis::cp, Axis::dp}, "dp_cp");
}

}  // namespace cohort
