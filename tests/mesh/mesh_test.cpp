// The communicators of the mesh against its arithmetic, for every mesh that 1 to 4 ranks can form.
#include "mesh/mesh.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/mpi_communicator.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

/// The group holds the ranks that the arithmetic says, in its order.
void check_group(Communicator& group, const AxisGroup& expected, int world_rank) {
  EXPECT_EQ(group.rank(), expected.index);
  ASSERT_EQ(group.size(), static_cast<int>(expected.ranks.size()));
  std::vector<std::int32_t> ranks(expected.ranks.size());
  const std::int32_t own = world_rank;
  group.all_gather(&own, ranks.data(), 1, DType::i32);
  EXPECT_EQ(ranks, expected.ranks);
}

TEST(Mesh, GroupsAreThoseOfTheArithmetic) {
  const auto world = make_world_communicator();
  for (const MeshShape& shape : nearest_meshes({}, world->size(), 1000)) {
    SCOPED_TRACE(shape.str());
    const Mesh mesh(*world, shape);
    EXPECT_EQ(mesh.coordinates(), shape.coordinates_of(world->rank()));
    for (const Axis axis : kAxes) {
      EXPECT_EQ(mesh.axis(axis).name(), name_of(axis));
      EXPECT_EQ(mesh.index(axis), mesh.axis(axis).rank());
      check_group(mesh.axis(axis), shape.group_of(world->rank(), {axis}), world->rank());
    }
    check_group(mesh.gradient(), shape.group_of(world->rank(), {Axis::dp, Axis::cp}), world->rank());
    const bool fused = shape.size(Axis::dp) > 1 && shape.size(Axis::cp) > 1;
    EXPECT_EQ(mesh.gradient().name(), fused ? "dp_cp" : shape.size(Axis::cp) > 1 ? "cp" : "dp");
    // Tensors are in host memory here.
    for (const Axis axis : kAxes) EXPECT_EQ(&mesh.host_axis(axis), &mesh.axis(axis));
    EXPECT_EQ(&mesh.host_gradient(), &mesh.gradient());
  }
}

TEST(Mesh, RefusesAShapeThatDoesNotFit) {
  const auto world = make_world_communicator();
  EXPECT_ERROR(Mesh(*world, MeshShape(5, 1, 1, 1)), ExitCode::config, "needs 5 ranks", "Start 5 ranks");
}

}  // namespace
}  // namespace cohort::test
