// The two families of communicators of a mesh on GPUs: the same ranks, in host and in device memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "comm/device_backends.hpp"
#include "mesh/mesh.hpp"

namespace cohort::test {
namespace {

[[maybe_unused]] const ::testing::Environment* const environment = ::testing::AddGlobalTestEnvironment(new DeviceEnvironment);

/// Both groups hold the ranks that the arithmetic says, in its order.
void check_groups(Communicator& host, Communicator& device, const AxisGroup& expected, int world_rank) {
  const std::size_t n = expected.ranks.size();
  EXPECT_EQ(host.backend(), n == 1 ? "self" : "mpi");
  EXPECT_EQ(device.backend(), n == 1 ? "self" : "nccl");
  EXPECT_EQ(device.name(), host.name());
  EXPECT_EQ(device.rank(), host.rank());
  ASSERT_EQ(device.size(), static_cast<int>(n));
  DeviceBuffer<std::int32_t> own(std::vector<std::int32_t>{world_rank});
  DeviceBuffer<std::int32_t> on_device{std::vector<std::int32_t>(n)};
  device.all_gather(own.data(), on_device.data(), 1, DType::i32);
  EXPECT_EQ(on_device.host(), expected.ranks);
  std::vector<std::int32_t> on_host(n);
  host.all_gather(&world_rank, on_host.data(), 1, DType::i32);
  EXPECT_EQ(on_host, expected.ranks);
}

TEST(NcclMesh, GroupsAreThoseOfTheArithmetic) {
  Communicator& world = host_world();
  for (const MeshShape& shape : nearest_meshes({}, world.size(), 1000)) {
    SCOPED_TRACE(shape.str());
    const Mesh mesh(world, shape, DeviceKind::gpu);
    for (const Axis axis : kAxes) {
      check_groups(mesh.host_axis(axis), mesh.axis(axis), shape.group_of(world.rank(), {axis}), world.rank());
    }
    check_groups(mesh.host_gradient(), mesh.gradient(), shape.group_of(world.rank(), {Axis::dp, Axis::cp}), world.rank());
  }
}

}  // namespace
}  // namespace cohort::test
