#include "mesh/mesh_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

// Slowest first, which is also how people write a mesh down.
constexpr std::array<Axis, 4> kAsWritten{Axis::dp, Axis::pp, Axis::cp, Axis::tp};

bool contains(MeshShape::Axes axes, Axis axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

std::vector<int> divisors_of(int number) {
  std::vector<int> divisors;
  for (int d = 1; static_cast<Count>(d) * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d != number / d) divisors.push_back(number / d);
  }
  return divisors;
}

/// Doublings and halvings between the two meshes; then how far tp, pp and cp are off.
auto distance(const MeshShape& a, const MeshShape& b) {
  const auto off = [&](Axis axis) { return std::fabs(std::log2(static_cast<double>(a.size(axis)) / b.size(axis))); };
  const double total = off(Axis::dp) + off(Axis::pp) + off(Axis::cp) + off(Axis::tp);
  // Sums of logarithms that should be equal differ in the last bits: rounded, so that the tie is one.
  return std::tuple(std::round(total * 1e6), off(Axis::tp), off(Axis::pp), off(Axis::cp));
}

/// A degree that a run file or a command line gave.
int checked_degree(Axis axis, Count degree) {
  if (degree < 1 || degree > std::numeric_limits<int>::max()) {
    fail(ExitCode::config, "the mesh cannot have {} = {}: a degree is a number of ranks, 1 or more", name_of(axis), degree);
  }
  return static_cast<int>(degree);
}

}  // namespace

MeshShape::MeshShape(Count dp, Count pp, Count cp, Count tp) {
  degrees_[Axis::dp] = checked_degree(Axis::dp, dp);
  degrees_[Axis::pp] = checked_degree(Axis::pp, pp);
  degrees_[Axis::cp] = checked_degree(Axis::cp, cp);
  degrees_[Axis::tp] = checked_degree(Axis::tp, tp);
  Count product = 1;
  for (const Axis axis : kAxes) {
    product *= degrees_[axis];  // at most 2^31 times 2^31
    if (product > std::numeric_limits<int>::max()) fail(ExitCode::config, "the mesh {} has more ranks than MPI can count", str());
  }
}

int MeshShape::size(Axes axes) const {
  int product = 1;
  for (const Axis axis : kAxes) product *= contains(axes, axis) ? degrees_[axis] : 1;
  return product;
}

AxisValues MeshShape::coordinates_of(int rank) const {
  COHORT_CHECK(rank >= 0 && rank < world(), "rank {} is not in the mesh {}", rank, str());
  AxisValues coordinates;
  for (const Axis axis : kAxes) {
    coordinates[axis] = rank % degrees_[axis];
    rank /= degrees_[axis];
  }
  return coordinates;
}

int MeshShape::rank_of(const AxisValues& coordinates) const {
  int rank = 0;
  for (auto axis = kAxes.rbegin(); axis != kAxes.rend(); ++axis) {
    COHORT_CHECK(coordinates[*axis] >= 0 && coordinates[*axis] < degrees_[*axis], "{} index {} is not in the mesh {}",
                 name_of(*axis), coordinates[*axis], str());
    rank = rank * degrees_[*axis] + coordinates[*axis];
  }
  return rank;
}

AxisGroup MeshShape::group_of(int rank, Axes axes) const {
  AxisGroup group{{leader_of(rank, axes)}, index_of(rank, axes)};
  group.ranks.reserve(static_cast<std::size_t>(size(axes)));
  int stride = 1;
  for (const Axis axis : kAxes) {
    if (contains(axes,
                 axis)) {  // what is there, repeated for each further coordinate: ascending, since the stride exceeds the spread
      const std::size_t listed = group.ranks.size();
      for (int c = 1; c < degrees_[axis]; ++c) {
        for (std::size_t i = 0; i < listed; ++i) group.ranks.push_back(group.ranks[i] + c * stride);
      }
    }
    stride *= degrees_[axis];
  }
  return group;
}

int MeshShape::leader_of(int rank, Axes axes) const {
  AxisValues coordinates = coordinates_of(rank);
  for (const Axis axis : axes) coordinates[axis] = 0;
  return rank_of(coordinates);
}

int MeshShape::index_of(int rank, Axes axes) const {
  const AxisValues coordinates = coordinates_of(rank);
  int index = 0;
  for (auto axis = kAxes.rbegin(); axis != kAxes.rend(); ++axis) {
    if (contains(axes, *axis)) index = index * degrees_[*axis] + coordinates[*axis];
  }
  return index;
}

std::string MeshShape::str() const {
  std::vector<std::string> parts;
  for (const Axis axis : kAsWritten) parts.push_back(fmt::format("{} {}", name_of(axis), degrees_[axis]));
  return join(parts, " x ");
}

std::vector<MeshShape> nearest_meshes(const MeshShape& shape, int world, std::size_t count) {
  std::vector<MeshShape> meshes;
  for (const int tp : divisors_of(world)) {
    for (const int cp : divisors_of(world / tp)) {
      for (const int pp : divisors_of(world / tp / cp)) meshes.emplace_back(world / tp / cp / pp, pp, cp, tp);
    }
  }
  std::sort(meshes.begin(), meshes.end(), [&](const auto& a, const auto& b) { return distance(a, shape) < distance(b, shape); });
  meshes.resize(std::min(count, meshes.size()));
  return meshes;
}

void check_product(const MeshShape& shape, int world) {
  if (shape.world() == world) return;
  std::vector<std::string> fitting;
  for (const MeshShape& mesh : nearest_meshes(shape, world, 3)) fitting.push_back(mesh.str());
  fail(ExitCode::config, "the mesh {} needs {}, but the job has {}. Start {}, or use {}", shape.str(),
       counted(shape.world(), "rank"), world, counted(shape.world(), "rank"), join(fitting, " or "));
}

MeshShape resolve_mesh(Count dp, Count pp, Count cp, Count tp, int world) {
  if (dp == 0) {
    const MeshShape model(1, pp, cp, tp);
    dp = std::max(1, world / model.world());  // check_product refuses it if it does not divide
  }
  MeshShape shape(dp, pp, cp, tp);
  check_product(shape, world);
  return shape;
}

}  // namespace cohort
