#include "train/matrix_holders.hpp"

#include <algorithm>

#include "parallel/strategy.hpp"
#include "parallel/zero/shard_group.hpp"
#include "train/model_of_rank.hpp"

namespace cohort {
namespace {

int shards_of_copy(const ParallelSection& parallel) {
  if (!is_sharded(parallel.data)) return 1;
  return static_cast<int>(parallel.shard_ranks == 0 ? parallel.dp * parallel.cp : parallel.shard_ranks);
}

// The parts of the matrices of one tensor-parallel rank's model: in blocks of a shard group each, or whole.
void add_parts(std::vector<HeldMatrix>& matrices, const RunConfig& config, const Model& model, int place, int shards) {
  const auto tp = static_cast<int>(config.parallel.tp);
  const auto find = [&](const Parameter& parameter) {
    return std::find_if(matrices.begin(), matrices.end(), [&](const auto& matrix) { return matrix.name == parameter.name; });
  };
  if (shards == 1) {
    for (const auto& parameter : model.parameters().trained()) {
      if (const auto found = find(*parameter); found != matrices.end())
        found->parts.push_back({place, place, 0, parameter->elements()});
    }
    return;
  }
  for (const ShardGroup& group : make_shard_groups(model, config.parallel.wrap, 0, shards)) {
    for (const ShardGroup::Member& member : group.members) {
      const auto found = find(*member.parameter);
      if (found == matrices.end()) continue;
      const Count end = member.offset + member.parameter->elements();
      for (Count shard = member.offset / group.block; shard * group.block < end; ++shard) {
        const Count first = std::max(member.offset, shard * group.block), last = std::min(end, (shard + 1) * group.block);
        found->parts.push_back({static_cast<int>(shard) * tp + place, place, first - member.offset, last - first});
      }
    }
  }
}

}  // namespace

int matrix_holders(const RunConfig& config) {
  const std::vector<const OptimizerRules*> kinds = optimizers_at_work(config.optimizer);
  const bool any = std::any_of(kinds.begin(), kinds.end(), [](const OptimizerRules* rules) { return rules->whole_matrices; });
  return any ? shards_of_copy(config.parallel) * static_cast<int>(config.parallel.tp) : 0;
}

std::vector<HeldMatrix> held_matrices(const RunConfig& config, int stage, const ParameterGroups& groups) {
  std::vector<HeldMatrix> matrices;
  for (int place = 0; place < config.parallel.tp; ++place) {
    TensorParallel part(static_cast<int>(config.parallel.tp), place, config.parallel.sequence);
    const std::unique_ptr<Model> model = declare_model_of_rank(config, stage, part);
    std::size_t next = 0;
    for (const auto& parameter : model->parameters().trained()) {
      if (groups.of(*parameter).kind->matrices == nullptr) continue;
      HeldMatrix matrix = held_matrix(*parameter, groups);
      if (place == 0) {
        matrices.push_back(std::move(matrix));
      } else {
        matrices[next].boxes.push_back(matrix.boxes.front());
      }
      ++next;
    }
    add_parts(matrices, config, *model, place, shards_of_copy(config.parallel));
  }
  for (HeldMatrix& matrix : matrices) {
    std::sort(matrix.parts.begin(), matrix.parts.end(),
              [](const MatrixPart& a, const MatrixPart& b) { return a.holder < b.holder; });
  }
  return matrices;
}

}  // namespace cohort
