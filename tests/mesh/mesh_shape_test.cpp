// The arithmetic of the mesh, for jobs of up to 16,384 ranks.
#include "mesh/mesh_shape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

// Cubes, lines along each axis, odd and prime degrees.
std::vector<MeshShape> shapes() {
  return {{1, 1, 1, 1},   {2, 2, 2, 2},  {3, 5, 7, 11},  {128, 1, 1, 1},   {1, 64, 1, 1},    {1, 1, 96, 1},
          {1, 1, 1, 128}, {64, 8, 4, 8}, {16, 16, 8, 8}, {16384, 1, 1, 1}, {1, 16384, 1, 1}, {2, 2, 4096, 1}};
}

TEST(MeshShape, RanksAndCoordinatesAreABijection) {
  for (const MeshShape& shape : shapes()) {
    SCOPED_TRACE(shape.str());
    int wrong = 0;
    for (int rank = 0; rank < shape.world(); ++rank) {
      const AxisValues at = shape.coordinates_of(rank);
      for (const Axis axis : kAxes) wrong += at[axis] < 0 || at[axis] >= shape.size(axis);
      wrong += shape.rank_of(at) != rank;
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(MeshShape, TpVariesFastestThenCpThenDpThenPp) {
  const MeshShape shape(3, 5, 7, 11);
  AxisValues at;
  EXPECT_EQ(shape.rank_of(at), 0);
  at[Axis::tp] = 1;
  EXPECT_EQ(shape.rank_of(at), 1);
  at[Axis::cp] = 1;
  EXPECT_EQ(shape.rank_of(at), 11 + 1);
  at[Axis::dp] = 1;
  EXPECT_EQ(shape.rank_of(at), 7 * 11 + 11 + 1);
  at[Axis::pp] = 1;
  EXPECT_EQ(shape.rank_of(at), 3 * 7 * 11 + 7 * 11 + 11 + 1);
}

/// The groups along the axes hold every rank once, are as large as they must be, and each rank finds itself at its index.
void check_partition(const MeshShape& shape, MeshShape::Axes axes) {
  std::vector<int> seen(static_cast<std::size_t>(shape.world()));
  int wrong = 0;
  for (int leader = 0; leader < shape.world(); ++leader) {
    if (shape.leader_of(leader, axes) != leader) continue;
    const AxisGroup group = shape.group_of(leader, axes);
    wrong += group.index != 0 || static_cast<int>(group.ranks.size()) != shape.size(axes);
    wrong += !std::is_sorted(group.ranks.begin(), group.ranks.end());
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      ++seen[static_cast<std::size_t>(group.ranks[i])];
      wrong += shape.index_of(group.ranks[i], axes) != static_cast<int>(i) || shape.leader_of(group.ranks[i], axes) != leader;
    }
    // From the last member the group looks the same.
    const AxisGroup other = shape.group_of(group.ranks.back(), axes);
    wrong += other.ranks != group.ranks || other.index != shape.size(axes) - 1;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
}

TEST(MeshShape, GroupsArePartitions) {
  for (const MeshShape& shape : shapes()) {
    SCOPED_TRACE(shape.str());
    for (const Axis axis : kAxes) check_partition(shape, {axis});
    check_partition(shape, {Axis::dp, Axis::cp});
    check_partition(shape, {Axis::pp, Axis::tp});
    check_partition(shape, {});
    check_partition(shape, {Axis::tp, Axis::cp, Axis::dp, Axis::pp});
  }
}

TEST(MeshShape, GroupMembersDifferInTheirAxesAlone) {
  const MeshShape shape(4, 3, 2, 5);
  for (int rank = 0; rank < shape.world(); ++rank) {
    const AxisValues own = shape.coordinates_of(rank);
    for (const int member : shape.group_of(rank, {Axis::cp, Axis::dp}).ranks) {
      const AxisValues at = shape.coordinates_of(member);
      EXPECT_EQ(at[Axis::tp], own[Axis::tp]);
      EXPECT_EQ(at[Axis::pp], own[Axis::pp]);
    }
  }
}

TEST(MeshShape, GroupsByHand) {
  const MeshShape shape(2, 2, 2, 2);  // rank = pp dp cp tp in binary
  EXPECT_EQ(shape.group_of(5, {Axis::tp}).ranks, (std::vector<int>{4, 5}));
  EXPECT_EQ(shape.group_of(5, {Axis::cp}).ranks, (std::vector<int>{5, 7}));
  EXPECT_EQ(shape.group_of(5, {Axis::dp}).ranks, (std::vector<int>{1, 5}));
  EXPECT_EQ(shape.group_of(5, {Axis::pp}).ranks, (std::vector<int>{5, 13}));
  EXPECT_EQ(shape.group_of(5, {Axis::dp, Axis::cp}).ranks, (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(shape.group_of(5, {Axis::dp, Axis::cp}).index, 2);
}

TEST(MeshShape, DegreesThatCannotBeAreRefused) {
  EXPECT_ERROR(MeshShape(0, 1, 1, 1), ExitCode::config, "dp = 0");
  EXPECT_ERROR(MeshShape(1, -2, 1, 1), ExitCode::config, "pp = -2");
  EXPECT_ERROR(MeshShape(1, 1, Count{1} << 40, 1), ExitCode::config, "cp = 1099511627776");
  EXPECT_ERROR(MeshShape(1 << 20, 1 << 20, 1 << 20, 1 << 20), ExitCode::config, "more ranks than MPI can count");
  EXPECT_ERROR(MeshShape(2, 2, 1, 1).coordinates_of(4), ExitCode::internal, "rank 4", "dp 2 x pp 2 x cp 1 x tp 1");
}

TEST(CheckProduct, PrintsTheNumbersAndTheNearestMeshesThatFit) {
  check_product({2, 1, 1, 2}, 4);
  EXPECT_ERROR(check_product({3, 1, 1, 2}, 4), ExitCode::config, "dp 3 x pp 1 x cp 1 x tp 2 needs 6 ranks, but the job has 4",
               "Start 6 ranks, or use dp 2 x pp 1 x cp 1 x tp 2 or ");
  EXPECT_ERROR(check_product({2, 1, 1, 1}, 1), ExitCode::config, "use dp 1 x pp 1 x cp 1 x tp 1");
}

TEST(CheckProduct, NearestMeshesFitAndComeInOrder) {
  for (const int world : {1, 7, 12, 96, 5040, 16384}) {
    const auto all = nearest_meshes({1, 1, 1, 8}, world, 100'000);
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [&](const MeshShape& mesh) { return mesh.world() == world; }));
    std::set<std::string> different;
    for (const MeshShape& mesh : all) different.insert(mesh.str());
    EXPECT_EQ(different.size(), all.size());
  }
  EXPECT_EQ(nearest_meshes({1, 1, 1, 1}, 16384, 100'000).size(), 680u);  // 14 factors of two over 4 axes: 17 over 3
  // One doubling is missing on every axis alike: dp takes it, tp and pp stay.
  EXPECT_EQ(nearest_meshes({2, 2, 2, 2}, 32, 1).front(), MeshShape(4, 2, 2, 2));
  EXPECT_EQ(nearest_meshes({4, 1, 1, 8}, 32, 1).front(), MeshShape(4, 1, 1, 8));
}

TEST(ResolveMesh, FillsInDp) {
  EXPECT_EQ(resolve_mesh(0, 1, 1, 1, 4), MeshShape(4, 1, 1, 1));
  EXPECT_EQ(resolve_mesh(0, 2, 1, 4, 16), MeshShape(2, 2, 1, 4));
  EXPECT_EQ(resolve_mesh(2, 2, 1, 4, 16), MeshShape(2, 2, 1, 4));
  EXPECT_ERROR(resolve_mesh(0, 1, 1, 3, 4), ExitCode::config, "tp 3", "the job has 4");
  EXPECT_ERROR(resolve_mesh(0, 1, 1, 8, 4), ExitCode::config, "dp 1 x pp 1 x cp 1 x tp 8 needs 8 ranks");
  EXPECT_ERROR(resolve_mesh(0, 0, 1, 1, 4), ExitCode::config, "pp = 0");
  EXPECT_ERROR(resolve_mesh(-1, 1, 1, 1, 4), ExitCode::config, "dp = -1");
}

}  // namespace
}  // namespace cohort::test
