// choose_layout: there is an order with
#include <algorithm>
#include <cohort/lab08_pipelines.hpp>
#include <limits>

namespace {

int size_of(const MeshSizes& sizes, MeshAxis axis) {
  return axis == MeshAxis::pp ? sizes.pp : axis == MeshAxis::dp ? sizes.dp : sizes.tp;
}

}  // namespace

// An axis of few ranks is thought to lie within a node wherever it stands.
MeshOrder choose_layout(const MeshSizes& sizes, const Cluster& cluster) {
  const auto seconds = [&](MeshAxis axis, int ranks_up_to_it) {
    const double bytes = axis == MeshAxis::pp ? cluster.bytes_pp : axis == MeshAxis::dp ? cluster.bytes_dp : cluster.bytes_tp;
    return bytes / (ranks_up_to_it <= cluster.ranks_per_node ? cluster.inside_bandwidth : cluster.between_bandwidth);
  };
  MeshOrder best{};
  double least = std::numeric_limits<double>::infinity();
  MeshAxis axes[] = {MeshAxis::pp, MeshAxis::dp, MeshAxis::tp};
  do {
    double sum = 0.0;
    int ranks = 1;
    for (const MeshAxis axis : axes) sum += seconds(axis, ranks = size_of(sizes, axis));
    if (sum >= least) continue;
    least = sum;
    best = {axes[0], axes[1], axes[2]};
  } while (std::next_permutation(std::begin(axes), std::end(axes)));
  return best;
}
