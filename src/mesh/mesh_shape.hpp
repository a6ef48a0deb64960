// The mesh of ranks as arithmetic: which rank sits where, and with whom it forms groups. No communication, no MPI: any rank can
// work out the place of any other, for a job of any size, without launching it.
//
// world = dp pp cp tp. A rank's number counts tp fastest, then cp, then dp, then pp:
//   rank = ((pp_index dp + dp_index) cp + cp_index) tp + tp_index
// so that tensor-parallel ranks, which talk most, are neighbours and share a node, and pipeline stages, which talk least, are far
// apart.
//
// A group along an axis holds the ranks that differ only in that coordinate. Groups along several axes at once are fused: along
// {cp, dp} are the ranks that hold the same weights, over which gradients are reduced.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/axis.hpp"
#include "base/units.hpp"

namespace cohort {

/// A place in the mesh, or the extents of a mesh: one number for each axis.
class AxisValues {
 public:
  constexpr explicit AxisValues(int fill = 0) : values_{fill, fill, fill, fill} {}
  constexpr int operator[](Axis axis) const { return values_[static_cast<std::size_t>(axis)]; }
  constexpr int& operator[](Axis axis) { return values_[static_cast<std::size_t>(axis)]; }
  bool operator==(const AxisValues&) const = default;

 private:
  std::array<int, kAxes.size()> values_;  // in the order of Axis
};

/// The ranks of one group, and the place of the rank that asked.
struct AxisGroup {
  std::vector<int> ranks;  // global, ascending
  int index;               // of the rank in `ranks`
};

class MeshShape {
 public:
  using Axes = std::initializer_list<Axis>;

  /// All degrees 1: one rank.
  MeshShape() = default;
  /// Degrees from 1; throws Error(config) on others. Named in the order of the run file's keys.
  MeshShape(Count dp, Count pp, Count cp, Count tp);

  int size(Axis axis) const { return degrees_[axis]; }
  /// Product over the axes: the size of a group along them. Throws nothing: the constructor refuses products beyond 2^31 - 1.
  int size(Axes axes) const;
  /// Ranks of the whole mesh.
  int world() const { return size({Axis::tp, Axis::cp, Axis::dp, Axis::pp}); }

  AxisValues coordinates_of(int rank) const;
  int rank_of(const AxisValues& coordinates) const;

  /// The group of `rank` along the axes, whose order does not matter.
  AxisGroup group_of(int rank, Axes axes) const;
  /// Of that group, without listing it: its lowest rank, which names the group ...
  int leader_of(int rank, Axes axes) const;
  /// ... and the place of `rank` in it.
  int index_of(int rank, Axes axes) const;

  /// "dp 2 x pp 1 x cp 1 x tp 4".
  std::string str() const;

  bool operator==(const MeshShape&) const = default;

 private:
  AxisValues degrees_{1};
};

/// Throws Error(config) with the numbers, and the nearest meshes that would fit, unless the mesh has exactly `world` ranks.
void check_product(const MeshShape& shape, int world);

/// The mesh of a run file on `world` ranks: dp = 0 stands for what is left, world / (pp cp tp). Throws as check_product().
MeshShape resolve_mesh(Count dp, Count pp, Count cp, Count tp, int world);

/// The meshes of exactly `world` ranks that are nearest to the one given, at most `count`, nearest first. Near means few
/// doublings and halvings of degrees; of two equally near ones, that which keeps tp, then pp, then cp.
std::vector<MeshShape> nearest_meshes(const MeshShape& shape, int world, std::size_t count);

}  // namespace cohort
