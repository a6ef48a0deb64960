// choose_layout: there is an order with
#include <cohort/lab08_pipelines.hpp>

// Most bytes fastest, though that axis may fit into no node.
MeshOrder choose_layout(const MeshSizes& sizes, const Cluster& cluster) {
  (void)sizes;
  const double pp = cluster.bytes_pp, dp = cluster.bytes_dp, tp = cluster.bytes_tp;
  if (tp >= dp && tp >= pp) return {MeshAxis::tp, dp >= pp ? MeshAxis::dp : MeshAxis::pp, dp >= pp ? MeshAxis::pp : MeshAxis::dp};
  if (dp >= pp) return {MeshAxis::dp, tp >= pp ? MeshAxis::tp : MeshAxis::pp, tp >= pp ? MeshAxis::pp : MeshAxis::tp};
  return {MeshAxis::pp, dp >= tp ? MeshAxis::dp : MeshAxis::tp, dp >= tp ? MeshAxis::tp : MeshAxis::dp};
}
