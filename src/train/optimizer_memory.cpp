#include "train/optimizer_memory.hpp"

#include <algorithm>

#include "optim/matrix_work.hpp"
#include "train/matrix_holders.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// Of each of `ranks` that share a flat tensor in equal blocks.
void add_slots(std::vector<Bytes>& slots, const std::vector<OwnedPiece>& pieces, Count elements, Count block,
               const ParameterGroups& groups) {
  for (const UpdateRun& run : runs_of(pieces, elements, groups)) {
    const Bytes each = run.group->kind->rules.slot_bytes();
    for (Count rank = run.begin / block; rank * block < run.end; ++rank) {
      const Count first = std::max(run.begin, rank * block), last = std::min(run.end, (rank + 1) * block);
      slots[static_cast<std::size_t>(rank)] += (last - first) * each;
    }
  }
}

}  // namespace

OptimizerMemory optimizer_memory(const RunConfig& config, int stage, const Model& model, const std::vector<ShardGroup>& groups) {
  const ParameterGroups parameter_groups(config.optimizer);
  std::vector<Bytes> slots;
  if (groups.empty()) {
    slots.resize(1);
    const ParameterRegistry& registry = model.parameters();
    add_slots(slots, whole_of(registry).pieces, registry.flat_elements(), registry.flat_elements(), parameter_groups);
  } else {
    slots.resize(static_cast<std::size_t>(groups.front().elements / groups.front().block));
  }
  for (const ShardGroup& group : groups) {
    std::vector<OwnedPiece> pieces;
    for (const ShardGroup::Member& member : group.members)
      pieces.push_back({member.parameter, 0, member.offset, member.parameter->elements()});
    add_slots(slots, pieces, group.elements, group.block, parameter_groups);
  }
  std::vector<Bytes> matrices(slots.size(), 0);
  if (const int holders = matrix_holders(config); holders > 0) {
    const MatrixPlan plan(held_matrices(config, stage, parameter_groups), holders);
    matrices = matrix_work_bytes(plan, parameter_groups, device_of(config));
  }
  // A shard has as many holders as there are tensor-parallel ranks.
  OptimizerMemory most;
  for (std::size_t holder = 0; holder < matrices.size(); ++holder) {
    const OptimizerMemory here{slots[holder * slots.size() / matrices.size()], matrices[holder]};
    if (here.slots + here.matrices > most.slots + most.matrices) most = here;
  }
  return most;
}

Bytes most_slot_bytes(const OptimizerSection& section) {
  Bytes most = 0;
  for (const OptimizerRules* rules : optimizers_at_work(section)) most = std::max(most, rules->slot_bytes());
  return most;
}

}  // namespace cohort
