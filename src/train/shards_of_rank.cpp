#include "train/shards_of_rank.hpp"

#include "optim/parameter_groups.hpp"
#include "parallel/strategy.hpp"
#include "parallel/zero/shard_group.hpp"
#include "train/model_of_rank.hpp"
#include "train/train_step.hpp"

namespace cohort {

std::vector<StateShard> shards_of_rank(const RunConfig& config, int rank) {
  const MeshShape mesh = mesh_shape_of(config.parallel);
  const AxisValues place = mesh.coordinates_of(rank);
  TensorParallel part(mesh.size(Axis::tp), place[Axis::tp], config.parallel.sequence);
  const std::unique_ptr<Model> model = declare_model_of_rank(config, place[Axis::pp], part);
  // The ranks that reduce gradients together: groups of `holders` of them share one copy of the state, and are replicas.
  const int replicas = mesh.size({Axis::dp, Axis::cp});
  const int index = mesh.index_of(rank, {Axis::dp, Axis::cp});
  int holders = 1;
  std::vector<OwnedSegment> owned;
  if (is_sharded(config.parallel.data)) {
    holders = config.parallel.shard_ranks == 0 ? replicas : static_cast<int>(config.parallel.shard_ranks);
    for (ShardGroup& group : make_shard_groups(*model, config.parallel.wrap, index % holders, holders))
      owned.push_back(std::move(group.own));
  } else {
    owned.push_back(whole_of(model->parameters()));
  }
  const ParameterGroups parameter_groups(config.optimizer);
  std::vector<OwnedSegment> segments;
  std::vector<std::vector<SegmentSlot>> slots;
  for (const OwnedSegment& segment : owned) {
    for (const UpdateRun& run : runs_of(segment.pieces, /*elements=*/0, parameter_groups)) {
      segments.push_back(segment_of(segment, run));
      std::vector<SegmentSlot>& named = slots.emplace_back();
      for (const SlotSpec& slot : run.group->kind->rules.slots) named.push_back({slot.name, {}});
    }
  }
  std::vector<StateShard> all = shards_of(segments, slots, {index / holders, replicas / holders});
  if (const OwnedSegment frozen = frozen_of(model->parameters()); !frozen.pieces.empty()) {
    const std::vector<StateShard> whole = shards_of({frozen}, {}, {index, replicas});
    all.insert(all.end(), whole.begin(), whole.end());
  }
  return all;
}

}  // namespace cohort
