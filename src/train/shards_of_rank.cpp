#include "train/shards_of_rank.hpp"

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
  return shards_of(owned, {{"m", {}}, {"v", {}}}, {index / holders, replicas / holders});
}

}  // namespace cohort
