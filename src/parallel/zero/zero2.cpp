#include "parallel/zero/zero2.hpp"

#include "ops/pointwise.hpp"

namespace cohort {

void ShardedGradients::make_gradients(ShardGroup& group) {
  group.own.gradients = Tensor::zeros("gradients.shard", {group.block}, DType::f32, model_.storage().device);
}

void ShardedGradients::begin_gradients() {
  for (const ShardGroup& group : groups_) group.own.gradients.zero();
}

void ShardedGradients::pre_gradient(const Unit& unit) {
  for (const std::size_t g : groups_of(unit)) {
    ShardGroup& group = groups_[g];
    if (group.gradient.defined()) continue;
    group.attach_gradient(pool_.take(group.elements, DType::f32));
    group.gradient.zero();
  }
}

void ShardedGradients::group_ready(ShardGroup& group) {
  while (reductions() >= kInFlight) finish_reduction();
  start_reduction(group);
}

void ShardedGradients::reduced(ShardGroup& group) {
  const Tensor& sum = group.own.gradients;
  ops::add(ops::Exec{sum.device()}, sum, sum, group.own_block(group.gradient));
  pool_.give_back(group.gradient);
  group.attach_gradient({});
}

void ShardedGradients::end_pass() {
  while (reducing()) finish_reduction();
  for (ShardGroup& group : groups_) {  // left by a forward that no backward followed
    if (!group.gradient.defined()) continue;
    pool_.give_back(group.gradient);
    group.attach_gradient({});
  }
}

Zero2::Zero2(Model& model, Communicator& group, const ShardOptions& options) : ShardedGradients(model, group, options) {
  const ModelStorage& storage = model.storage();
  for (ShardGroup& shard : groups_) {
    shard.attach_compute(Tensor::zeros("parameters.compute", {shard.elements}, storage.compute, storage.device));
    make_values(shard, shard.own_block(shard.compute));
    make_gradients(shard);
  }
  gather_weights();
}

}  // namespace cohort
