// Lab 8: one way to write it.
#include <algorithm>
#include <cohort/lab08_pipelines.hpp>
#include <limits>
#include <span>
#include <vector>

namespace {

PipelineAction forward(int micro_batch) { return {PipelinePass::forward, micro_batch}; }
PipelineAction backward(int micro_batch) { return {PipelinePass::backward, micro_batch}; }

// How many stages it takes if none may cost more than `limit`; a layer that alone costs more gives more stages than there are.
std::size_t stages_within(std::span<const double> costs, double limit) {
  std::size_t stages = 1;
  double cost = 0.0;
  for (const double layer : costs) {
    if (layer > limit) return costs.size() + 1;
    if (cost + layer > limit) {
      ++stages;
      cost = 0.0;
    }
    cost += layer;
  }
  return stages;
}

int size_of(const MeshSizes& sizes, MeshAxis axis) {
  return axis == MeshAxis::pp ? sizes.pp : axis == MeshAxis::dp ? sizes.dp : sizes.tp;
}

}  // namespace

// 8.1
double bubble_fraction(int stages, int chunks, int micro_batches) {
  const double waiting = stages - 1;
  return waiting / (static_cast<double>(chunks) * micro_batches + waiting);
}

// 8.2
void gpipe_order(int, int, int micro_batches, std::span<PipelineAction> actions) {
  auto next = actions.begin();
  for (int i = 0; i < micro_batches; ++i) *next++ = forward(i);
  for (int i = 0; i < micro_batches; ++i) *next++ = backward(i);
}

// 8.3
void one_f_one_b_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions) {
  const int ahead = std::min(stages - 1 - stage, micro_batches);
  auto next = actions.begin();
  for (int i = 0; i < ahead; ++i) *next++ = forward(i);
  for (int i = ahead; i < micro_batches; ++i) {
    *next++ = forward(i);
    *next++ = backward(i - ahead);
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) *next++ = backward(i);
}

// 8.4
int peak_activations(std::span<const PipelineAction> actions) {
  int now = 0, most = 0;
  for (const PipelineAction& action : actions) {
    now += action.pass == PipelinePass::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

// 8.5
void balanced_stages(std::span<const double> costs, std::span<std::size_t> ends) {
  // The answer is the cost of some run of layers: the least of them with which the stages suffice.
  std::vector<double> limits;
  for (std::size_t first = 0; first < costs.size(); ++first) {
    double cost = 0.0;
    for (std::size_t layer = first; layer < costs.size(); ++layer) limits.push_back(cost += costs[layer]);
  }
  std::sort(limits.begin(), limits.end());
  const double limit =
      *std::partition_point(limits.begin(), limits.end(), [&](double one) { return stages_within(costs, one) > ends.size(); });
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    const std::size_t behind = ends.size() - 1 - stage;  // stages, each of which needs a layer
    double cost = costs[layer++];
    while (layer + behind < costs.size() && cost + costs[layer] <= limit) cost += costs[layer++];
    ends[stage] = layer;
  }
}

// 8.6
MeshPlace mesh_coordinates(const MeshSizes& sizes, int rank) {
  return {.pp = rank / (sizes.dp * sizes.tp), .dp = rank / sizes.tp % sizes.dp, .tp = rank % sizes.tp};
}

// 8.7
void mesh_group(const MeshSizes& sizes, int rank, MeshAxis axis, std::span<int> group) {
  const MeshPlace place = mesh_coordinates(sizes, rank);
  const int stride = axis == MeshAxis::tp ? 1 : axis == MeshAxis::dp ? sizes.tp : sizes.dp * sizes.tp;
  const int own = axis == MeshAxis::tp ? place.tp : axis == MeshAxis::dp ? place.dp : place.pp;
  for (std::size_t i = 0; i < group.size(); ++i) group[i] = rank + (static_cast<int>(i) - own) * stride;
}

// 8.8
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
    int ranks = 1;  // of a group with all of those that vary faster: neighbours
    for (const MeshAxis axis : axes) sum += seconds(axis, ranks *= size_of(sizes, axis));
    if (sum >= least) continue;
    least = sum;
    best = {axes[0], axes[1], axes[2]};
  } while (std::next_permutation(std::begin(axes), std::end(axes)));
  return best;
}
