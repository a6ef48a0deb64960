#include "train/ranks_to_count.hpp"

#include <algorithm>
#include <set>

#include "optim/matrix_work.hpp"
#include "parallel/strategy.hpp"
#include "parallel/zero/shard_group.hpp"
#include "train/matrix_holders.hpp"
#include "train/model_of_rank.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// Bytes of slots of each rank among which ZeRO divides the groups of the model.
std::vector<Bytes> slot_bytes_of_shards(const RunConfig& config, int stage, const ParameterGroups& groups) {
  TensorParallel part(static_cast<int>(config.parallel.tp), 0, config.parallel.sequence);
  const std::unique_ptr<Model> model = declare_model_of_rank(config, stage, part);
  const Count all = config.parallel.dp * config.parallel.cp;
  const Count shards = config.parallel.shard_ranks == 0 ? all : config.parallel.shard_ranks;
  std::vector<Bytes> bytes(static_cast<std::size_t>(shards), 0);
  for (const ShardGroup& group : make_shard_groups(*model, config.parallel.wrap, 0, static_cast<int>(shards))) {
    std::vector<OwnedPiece> pieces;
    for (const ShardGroup::Member& member : group.members)
      pieces.push_back({member.parameter, 0, member.offset, member.parameter->elements()});
    for (const UpdateRun& run : runs_of(pieces, group.elements, groups)) {
      for (Count shard = run.begin / group.block; shard * group.block < run.end; ++shard) {
        const Count begin = std::max(run.begin, shard * group.block), end = std::min(run.end, (shard + 1) * group.block);
        bytes[static_cast<std::size_t>(shard)] += (end - begin) * run.group->kind->rules.slot_bytes();
      }
    }
  }
  return bytes;
}

template <class Number>
int place_of_largest(const std::vector<Number>& numbers) {
  return static_cast<int>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
}

}  // namespace

std::vector<int> ranks_to_count(const RunConfig& config, int stage) {
  const ParameterGroups groups(config.optimizer);
  const int holders = matrix_holders(config);
  if (holders == 0 && (config.optimizer.groups.empty() || !is_sharded(config.parallel.data))) return {0};
  const std::vector<Bytes> slots =
      is_sharded(config.parallel.data) ? slot_bytes_of_shards(config, stage, groups) : std::vector<Bytes>{0};
  const int tp = static_cast<int>(config.parallel.tp);
  if (holders == 0) return {place_of_largest(slots) * tp};
  const MatrixPlan plan(held_matrices(config, stage, groups), holders);
  std::vector<Bytes> bytes = matrix_work_bytes(plan, groups, device_of(config));
  for (std::size_t holder = 0; holder < bytes.size(); ++holder) bytes[holder] += slots[holder * slots.size() / bytes.size()];
  const std::set<int> ranks{place_of_largest(bytes), place_of_largest(plan.sent_elements())};
  return {ranks.begin(), ranks.end()};
}

}  // namespace cohort
