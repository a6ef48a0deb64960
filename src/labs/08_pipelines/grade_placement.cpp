// Which layers go to which stage, and which ranks to which part of the mesh.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/text.hpp"
#include "labs/08_pipelines/pipeline_grades.hpp"

namespace cohort::labs::lab08_pipelines {
namespace {

// The least largest cost of a stage: best[l] of the first l layers, by one stage more each time.
double least_largest(const std::vector<double>& costs, std::size_t stages) {
  std::vector<double> until{0.0};
  for (const double cost : costs) until.push_back(until.back() + cost);
  std::vector<double> best(until.size(), std::numeric_limits<double>::infinity());
  best[0] = 0.0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (std::size_t end = costs.size(); end > 0; --end) {
      best[end] = std::numeric_limits<double>::infinity();
      for (std::size_t first = stage; first < end; ++first)
        best[end] = std::min(best[end], std::max(best[first], until[end] - until[first]));
    }
    best[0] = std::numeric_limits<double>::infinity();
  }
  return best.back();
}

double largest_stage(const std::vector<double>& costs, const std::vector<std::size_t>& ends, std::size_t& stage) {
  double most = -1.0;
  std::size_t first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    double cost = 0.0;
    for (; first < ends[s]; ++first) cost += costs[first];
    if (cost <= most) continue;
    most = cost;
    stage = s;
  }
  return most;
}

void check_ends(const std::vector<std::size_t>& ends, std::size_t layers) {
  std::size_t first = 0;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    if (ends[stage] > layers) reject("ends[{}] is {}, but there are {} layers", stage, ends[stage], layers);
    if (ends[stage] == 0) reject("ends[{}] is 0: stage {} has no layer", stage, stage);
    if (ends[stage] <= first)
      reject("ends[{}] is {}: stage {} has no layer, since the one before ends with {}", stage, ends[stage], stage, first);
    first = ends[stage];
  }
  if (first != layers) reject("the last stage ends with {}, but there are {} layers", first, layers);
}

void check_balance(void (*balanced)(std::span<const double>, std::span<std::size_t>), const std::vector<double>& costs,
                   std::size_t stages) {
  std::vector<std::size_t> ends(stages, ~std::size_t{0});
  balanced(costs, ends);
  check_ends(ends, costs.size());
  std::size_t slowest = 0;
  const double most = largest_stage(costs, ends, slowest), right = least_largest(costs, stages);
  if (most <= right * (1.0 + 1e-12)) return;  // sums in another order
  bool equal = true;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t layers = ends[stage] - (stage == 0 ? 0 : ends[stage - 1]);
    equal &= layers == costs.size() / stages || layers == costs.size() / stages + 1;
  }
  reject("stage {} costs {:.6g}, and the whole pipeline waits for it: with other cuts no stage costs more than {:.6g}{}", slowest,
         most, right, equal ? ". As many layers each are not as much work each" : "");
}

std::string words_of(const MeshSizes& sizes) { return fmt::format("pp {}, dp {}, tp {}", sizes.pp, sizes.dp, sizes.tp); }

const char* name_of(MeshAxis axis) { return axis == MeshAxis::pp ? "pp" : axis == MeshAxis::dp ? "dp" : "tp"; }
int size_of(const MeshSizes& sizes, MeshAxis axis) {
  return axis == MeshAxis::pp ? sizes.pp : axis == MeshAxis::dp ? sizes.dp : sizes.tp;
}

constexpr std::array kAxes{MeshAxis::pp, MeshAxis::dp, MeshAxis::tp};
constexpr std::array kMeshes{MeshSizes{2, 2, 2}, MeshSizes{1, 1, 1}, MeshSizes{4, 3, 2}, MeshSizes{1, 5, 4}, MeshSizes{8, 16, 8}};

MeshPlace place_of(const MeshSizes& sizes, int rank) {
  return {rank / sizes.tp / sizes.dp, rank / sizes.tp % sizes.dp, rank % sizes.tp};
}

std::vector<int> group_of(const MeshSizes& sizes, int rank, MeshAxis axis) {
  const MeshPlace own = place_of(sizes, rank);
  std::vector<int> group;
  for (int other = 0; other < sizes.pp * sizes.dp * sizes.tp; ++other) {
    const MeshPlace place = place_of(sizes, other);
    const bool same = (axis == MeshAxis::pp || place.pp == own.pp) && (axis == MeshAxis::dp || place.dp == own.dp) &&
                      (axis == MeshAxis::tp || place.tp == own.tp);
    if (same) group.push_back(other);
  }
  return group;
}

std::string list(std::span<const int> numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return join(words);
}

double bytes_of(const Cluster& cluster, MeshAxis axis) {
  return axis == MeshAxis::pp ? cluster.bytes_pp : axis == MeshAxis::dp ? cluster.bytes_dp : cluster.bytes_tp;
}

using AxisOrder = std::array<MeshAxis, 3>;  // fastest first

// By axis in this order. A group of an axis lies among as many neighbours as it and the faster axes have ranks.
std::array<double, 3> seconds_of(const MeshSizes& sizes, const Cluster& cluster, const AxisOrder& order) {
  std::array<double, 3> seconds{};
  int neighbours = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    neighbours *= size_of(sizes, order[i]);
    const bool inside = neighbours <= cluster.ranks_per_node || size_of(sizes, order[i]) == 1;
    seconds[i] = bytes_of(cluster, order[i]) / (inside ? cluster.inside_bandwidth : cluster.between_bandwidth);
  }
  return seconds;
}

double sum_of(const std::array<double, 3>& seconds) { return seconds[0] + seconds[1] + seconds[2]; }

void check_layout(MeshOrder (*choose)(const MeshSizes&, const Cluster&), const MeshSizes& sizes, const Cluster& cluster) {
  const MeshOrder found = choose(sizes, cluster);
  const AxisOrder order{found.fastest, found.middle, found.slowest};
  for (const MeshAxis axis : kAxes) {
    if (std::count(order.begin(), order.end(), axis) != 1)
      reject("{} is {} times in the order: each axis is once", name_of(axis), std::count(order.begin(), order.end(), axis));
  }
  AxisOrder other = kAxes, best = kAxes;
  do {
    if (sum_of(seconds_of(sizes, cluster, other)) < sum_of(seconds_of(sizes, cluster, best))) best = other;
  } while (std::next_permutation(other.begin(), other.end()));
  const std::array<double, 3> seconds = seconds_of(sizes, cluster, order);
  const double least = sum_of(seconds_of(sizes, cluster, best));
  if (sum_of(seconds) <= least * (1.0 + 1e-12)) return;  // sums in another order
  std::vector<std::string> words;
  for (std::size_t i = 0; i < order.size(); ++i) words.push_back(fmt::format("{} {:.4g} s", name_of(order[i]), seconds[i]));
  reject("fastest first {}: {:.4g} s of messages ({}); there is an order with {:.4g} s",
         join(std::vector<std::string>{name_of(order[0]), name_of(order[1]), name_of(order[2])}), sum_of(seconds), join(words),
         least);
}

}  // namespace

void grade_balance(const Library& library, Grading& grading) {
  auto* balanced = library.function<void(std::span<const double>, std::span<std::size_t>)>("balanced_stages");
  struct Case {
    std::vector<double> costs;
    std::size_t stages;
  };
  std::vector<Case> cases{
      {{1, 1, 1, 1}, 2},    {{1, 1, 1, 1, 1, 1, 3}, 3}, {{5, 1, 1, 1, 1, 1}, 2}, {{2}, 1},      {{3, 1, 4}, 3}, {{0, 0, 0, 7}, 3},
      {{9, 1, 1, 1, 1}, 4}, {{2, 3, 4, 5, 6, 7, 8}, 3}, {{1, 1, 1, 9, 1, 1}, 2}, {{0, 0, 0}, 2}};
  Case deep;
  for (int layer = 0; layer < 61; ++layer) deep.costs.push_back(1.0 + 0.37 * (layer * 7 % 5) + (layer == 60 ? 6.0 : 0.0));
  for (const std::size_t stages : {4, 7, 16}) cases.push_back({deep.costs, stages});
  for (const Case& one : cases) {
    std::vector<std::string> words;
    for (const double cost : one.costs) words.push_back(fmt::format("{:g}", cost));
    grading.begin(fmt::format("{} of {}", counted(static_cast<Count>(one.stages), "stage"),
                              words.size() < 8 ? "layers of costs " + join(words) : fmt::format("{} layers", words.size())));
    check_balance(balanced, one.costs, one.stages);
  }
}

void grade_coordinates(const Library& library, Grading& grading) {
  auto* coordinates = library.function<MeshPlace(const MeshSizes&, int)>("mesh_coordinates");
  for (const MeshSizes& sizes : kMeshes) {
    for (int rank = 0; rank < sizes.pp * sizes.dp * sizes.tp; ++rank) {
      grading.begin(fmt::format("rank {} of {}", rank, words_of(sizes)));
      const MeshPlace found = coordinates(sizes, rank), right = place_of(sizes, rank);
      if (found.pp == right.pp && found.dp == right.dp && found.tp == right.tp) continue;
      const bool turned = found.pp == rank % sizes.pp && found.dp == rank / sizes.pp % sizes.dp;
      const bool outside =
          found.pp < 0 || found.pp >= sizes.pp || found.dp < 0 || found.dp >= sizes.dp || found.tp < 0 || found.tp >= sizes.tp;
      reject("it is at pp {}, dp {}, tp {}, it says, which is {}", found.pp, found.dp, found.tp,
             outside  ? "outside of the mesh"
             : turned ? "what it would be if pp varied fastest; but tp does: the next rank has the next tp"
                      : fmt::format("where rank {} is", (found.pp * sizes.dp + found.dp) * sizes.tp + found.tp));
    }
  }
}

void grade_groups(const Library& library, Grading& grading) {
  auto* mesh_group = library.function<void(const MeshSizes&, int, MeshAxis, std::span<int>)>("mesh_group");
  for (const MeshSizes& sizes : kMeshes) {
    for (const MeshAxis axis : kAxes) {
      for (int rank = 0; rank < sizes.pp * sizes.dp * sizes.tp; rank += 1 + rank / 7) {
        grading.begin(fmt::format("{} of rank {} of {}", name_of(axis), rank, words_of(sizes)));
        const std::vector<int> right = group_of(sizes, rank, axis);
        std::vector<int> found(right.size() + 1, -7);
        mesh_group(sizes, rank, axis, std::span(found).first(right.size()));
        if (found.back() != -7) reject("something was written to element {} of {}", right.size(), right.size());
        found.pop_back();
        if (found == right) continue;
        std::string words;
        for (const MeshAxis other : kAxes) {
          if (other != axis && found == group_of(sizes, rank, other))
            words = fmt::format(": that is its group of {}", name_of(other));
        }
        if (std::is_permutation(found.begin(), found.end(), right.begin(), right.end()))
          words = ": these are the right ranks, but not in ascending order";
        if (words.empty() && std::find(found.begin(), found.end(), rank) == found.end()) words = ": it is in its own group, too";
        for (const int other : found) {
          if (!words.empty()) break;
          if (other < 0 || other >= sizes.pp * sizes.dp * sizes.tp)
            words = fmt::format(": there is no rank {}", other);
          else if (std::find(right.begin(), right.end(), other) == right.end())
            words = fmt::format(": rank {} differs from rank {} not in {} alone", other, rank, name_of(axis));
        }
        reject("{}, it says{}", list(found), words);
      }
    }
  }
}

void grade_layout(const Library& library, Grading& grading) {
  auto* choose = library.function<MeshOrder(const MeshSizes&, const Cluster&)>("choose_layout");
  struct Case {
    MeshSizes sizes;
    Cluster cluster;  // bytes of pp, dp, tp
  };
  for (const auto& [sizes, cluster] : std::vector<Case>{{{4, 4, 8}, {8, 450e9, 50e9, 1e9, 4e9, 60e9}},
                                                        {{2, 8, 2}, {8, 450e9, 50e9, 1e9, 4e9, 60e9}},
                                                        {{2, 4, 16}, {8, 450e9, 50e9, 5e9, 30e9, 60e9}},
                                                        {{8, 4, 1}, {4, 300e9, 25e9, 9e9, 2e9, 0.0}},
                                                        {{1, 8, 4}, {4, 300e9, 25e9, 0.0, 80e9, 60e9}},
                                                        {{4, 2, 4}, {16, 300e9, 25e9, 20e9, 40e9, 10e9}},
                                                        {{2, 2, 2}, {8, 450e9, 50e9, 1e9, 2e9, 3e9}},
                                                        {{2, 16, 4}, {8, 450e9, 50e9, 2e9, 500e9, 60e9}}}) {
    grading.begin(fmt::format("{}, {} ranks a node, bytes of pp {:g}, dp {:g}, tp {:g}", words_of(sizes), cluster.ranks_per_node,
                              cluster.bytes_pp, cluster.bytes_dp, cluster.bytes_tp));
    check_layout(choose, sizes, cluster);
  }
}

}  // namespace cohort::labs::lab08_pipelines
